//! Errors of the conversion of Ruby DDLs. Words from the file are shortened.

use muster_ddl::{DdlError, MAX_DDL_BYTES};

/// Most levels of blocks, lists and calls in each other.
pub(super) const MAX_NESTING: usize = 32;

/// Limit of all texts after the expansion, in bytes. Each value counts a few bytes more.
pub(super) const MAX_EXPANDED_BYTES: usize = 4 * 1024 * 1024;

/// Longest part of the file in an error, in characters.
const MAX_SHOWN_CHARS: usize = 60;

/// Why a Ruby DDL cannot be converted.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct RubyDdlError {
    /// The line in the file, from 1.
    pub line: usize,
    /// What is wrong there.
    pub problem: RubyDdlProblem,
}

/// What is wrong with a line of a Ruby DDL.
#[derive(Debug, thiserror::Error)]
pub enum RubyDdlProblem {
    /// The file exceeds the size limit. Holds its size in bytes.
    #[error("the DDL has {0} bytes; at most {MAX_DDL_BYTES} are allowed")]
    TooLarge(usize),
    /// Loops and texts expand to more than the limit.
    #[error("the loops and texts of the DDL expand to more than {MAX_EXPANDED_BYTES} bytes")]
    TooMuchText,
    /// Blocks and lists are nested too deeply.
    #[error("blocks and lists are nested deeper than {MAX_NESTING} levels")]
    TooDeep,
    /// A literal, list or block without an end.
    #[error("the {0} that begins here has no end")]
    Unterminated(&'static str),
    /// A character that begins nothing that is understood.
    #[error("the character {0:?} is not understood here")]
    Character(char),
    /// Something else than what the syntax needs.
    #[error("expected {expected}, but found {found}")]
    Unexpected {
        /// What is needed.
        expected: &'static str,
        /// What is in the file.
        found: String,
    },
    /// Ruby code that would have to be run.
    #[error("{0} is Ruby code, which is not run; write its result instead")]
    RubyCode(String),
    /// A call that has no meaning at this place.
    #[error("`{word}` is not understood {place}; known are {known}")]
    UnknownCall {
        /// The name of the call.
        word: String,
        /// Where it is.
        place: &'static str,
        /// What is understood there.
        known: &'static str,
    },
    /// A DDL of a kind of plugin that Muster does not have.
    #[error(
        "this is the DDL of {0}, which has no equivalent; only agents and data sources are converted"
    )]
    OtherPlugin(&'static str),
    /// A value of a wrong type.
    #[error("{what} must be {expected}, but is {found}")]
    Value {
        /// What has the value.
        what: String,
        /// What it must be.
        expected: &'static str,
        /// The value, shortened.
        found: String,
    },
    /// A definition that occurs twice.
    #[error("{0} is declared twice; rename one of them")]
    Duplicate(String),
    /// The converted document is not valid.
    #[error("{0}")]
    Definition(Box<DdlError>),
    /// The converted document could not be written.
    #[error("the converted DDL cannot be written as JSON")]
    Json(#[from] serde_json::Error),
}

impl RubyDdlProblem {
    pub(super) fn at_line(self, line: usize) -> RubyDdlError {
        RubyDdlError { line, problem: self }
    }
}

/// A part of the file for an error: one line, shortened.
pub(super) fn shorten_text(text: &str) -> String {
    let shown: String = text.chars().take(MAX_SHOWN_CHARS).flat_map(char::escape_debug).collect();
    if text.chars().nth(MAX_SHOWN_CHARS).is_some() { format!("{shown}...") } else { shown }
}
