//! Converts a DDL of `MCollective`, which is written in Ruby, to a JSON DDL. Understands the calls, literals and loops over literals of published
//! DDLs. Runs no Ruby, and opens no files.
//!
//! Read in this order: `lexer` and `literals` split the text into tokens, `parser` makes calls of them, `evaluate` expands loops and texts, and
//! `document` interprets the calls.

mod arguments;
mod document;
mod entries;
mod error;
mod evaluate;
mod expressions;
mod lexer;
mod literals;
mod names;
mod parser;

use muster_ddl::{AgentDdl, DataDdl, DdlError, MAX_DDL_BYTES};
use serde::Serialize;

use self::document::ConvertedDocument;
pub use self::error::{RubyDdlError, RubyDdlProblem};

/// The kind of plugin that a DDL describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ConvertedDdlKind {
    /// An agent.
    Agent,
    /// A data source.
    Data,
}

/// A difference between the Ruby DDL and its JSON, or something to decide.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ConversionNote {
    /// The line of the Ruby DDL, from 1.
    pub line: usize,
    /// What differs, and why.
    pub text: String,
}

/// A converted DDL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConvertedDdl {
    /// What it describes.
    pub kind: ConvertedDdlKind,
    /// The name of the agent or data source.
    pub name: String,
    /// The JSON document, which has passed the checks of a DDL.
    pub json: String,
    /// What differs, in the order of lines.
    pub notes: Vec<ConversionNote>,
}

/// Converts the text of a Ruby DDL. `file_stem` is the file's name without `.ddl`, which `MCollective` takes as the name of the plugin.
pub fn convert_ruby_ddl(file_stem: &str, text: &str) -> Result<ConvertedDdl, RubyDdlError> {
    if text.len() > MAX_DDL_BYTES {
        return Err(RubyDdlProblem::TooLarge(text.len()).at_line(1));
    }
    let tokens = lexer::split_tokens(text)?;
    let statements = parser::parse_statements(tokens)?;
    let calls = evaluate::expand_statements(&statements)?;
    let mut document = document::convert_calls(file_stem, &calls)?;
    let json = document.to_json().map_err(|error| RubyDdlProblem::from(error).at_line(1))?;
    let warnings = match document.kind() {
        ConvertedDdlKind::Agent => {
            AgentDdl::from_slice(json.as_bytes()).map(|ddl| ddl.warnings().to_vec())
        }
        ConvertedDdlKind::Data => {
            DataDdl::from_slice(json.as_bytes()).map(|ddl| ddl.warnings().to_vec())
        }
    };
    for warning in warnings.map_err(|error| locate_error(&document, error))? {
        let line = document.line_of(&warning);
        document.notes.push(ConversionNote { line, text: warning });
    }
    // A loop repeats its notes.
    document.notes.sort();
    document.notes.dedup();
    Ok(ConvertedDdl {
        kind: document.kind(),
        name: document.name().to_owned(),
        json: json + "\n",
        notes: document.notes,
    })
}

fn locate_error(document: &ConvertedDocument, error: DdlError) -> RubyDdlError {
    let line = match &error {
        DdlError::Definition { at, .. } => document.line_of(at),
        _ => 1,
    };
    RubyDdlProblem::Definition(Box::new(error)).at_line(line)
}
