//! Policy errors: the fault, its position, and what was expected. `set` implements the resulting denial.

use std::io;
use std::path::PathBuf;

use muster_filter::FilterError;
use muster_wire::identity::NameError;

use super::options::InstantError;
use super::principal::PrincipalError;

/// A fault and its column, in characters from 1.
pub(super) type LocatedFault = (usize, PolicyFault);

/// A result of parsing a part of a line.
pub(super) type FieldResult<T> = Result<T, LocatedFault>;

/// An unusable policy or groups file. Requests that depend on it are denied until it is fixed.
#[derive(Debug, thiserror::Error)]
#[error("{}{}: {fault}", path.display(), location.map(|(line, column)| format!(":{line}:{column}")).unwrap_or_default())]
pub struct PolicyProblem {
    /// The file or directory.
    pub path: PathBuf,
    /// Line and column, both from 1, if the fault is in a line.
    pub location: Option<(usize, usize)>,
    /// The fault.
    pub fault: PolicyFault,
}

impl PolicyProblem {
    /// The line, from 1, if the fault is in a line.
    pub fn line_number(&self) -> Option<usize> {
        self.location.map(|(line, _)| line)
    }
}

/// A fault in one line of a text.
#[derive(Debug, thiserror::Error)]
#[error("line {line}, column {column}: {fault}")]
pub struct PolicyLineFault {
    /// The line, from 1.
    pub line: usize,
    /// The column, in characters from 1.
    pub column: usize,
    /// The fault.
    pub fault: PolicyFault,
}

/// The kinds of faults.
#[derive(Debug, thiserror::Error)]
pub enum PolicyFault {
    /// The file or directory cannot be read.
    #[error("cannot read: {0}")]
    Read(io::Error),
    /// Other users can modify the file or a directory on its path.
    #[error("{0}")]
    Unprotected(String),
    /// The file exceeds the size limit.
    #[error("the file has more than {0} bytes")]
    TooLarge(u64),
    /// The file exceeds the rule limit.
    #[error(
        "the file has more than {0} rules; use groups for callers, and one line for several actions"
    )]
    TooMany(usize),
    /// The file name is not a valid agent name.
    #[error("the file name is not an agent name: {0}")]
    FileName(NameError),
    /// Two file names differ only in case.
    #[error("there are two policies for agent `{0}`; keep the one in lower case")]
    Duplicate(String),
    /// The line does not begin with `policy default`, `allow` or `deny`.
    #[error(
        "expected `policy default allow|deny`, or `allow` or `deny` followed by a tab or two spaces"
    )]
    Unknown,
    /// Wrong number of fields.
    #[error(
        "the line has {0} fields; expected 4 or 5, separated by tabs or by two or more spaces, and optionally options: allow|deny, callers, actions, facts, classes"
    )]
    Fields(usize),
    /// Single spaces between fields, or spaces in one line with tabs.
    #[error(
        "the fields are separated by spaces; use tabs only, or only two or more spaces, because a single space separates the words of one field"
    )]
    Separators,
    /// A duplicate `policy default`.
    #[error("duplicate `policy default`; the first is in line {0}")]
    SecondDefault(usize),
    /// The word is not the name of a caller or service.
    #[error(transparent)]
    Principal(#[from] PrincipalError),
    /// An expression in a group.
    #[error("`{0}`: a group cannot contain an expression; write it in the policy line")]
    GroupExpression(String),
    /// An invalid expression.
    #[error("`{word}` is not an expression for callers: {reason}")]
    CallerExpression {
        /// The word.
        word: String,
        /// The error.
        reason: String,
    },
    /// An expression for names with a prefix, as in policies for `MCollective`.
    #[error(
        "`{word}` matches no caller: expressions match whole names, without a prefix such as `cert=`; write {}", suggestion.as_deref().map_or_else(|| "the expression for the name alone".to_owned(), |text| format!("`{text}`"))
    )]
    PrefixedExpression {
        /// The word.
        word: String,
        /// The expression for names, if it can be derived.
        suggestion: Option<String>,
    },
    /// A condition on an input that is none.
    #[error(
        "`{0}` is not a condition on an input; write it as `input:port=22,2222`, once for each input"
    )]
    InputCondition(String),
    /// Not a valid action name.
    #[error("`{word}` is not an action: {error}")]
    Action {
        /// The word.
        word: String,
        /// The name error.
        error: NameError,
    },
    /// Neither valid `-W` words nor a valid `-S` expression.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// The file exceeds the limit of data source lookups.
    #[error("the policy has more than {0} different data source lookups")]
    TooManyLookups(usize),
    /// A class in the facts field, probably a fact without a value.
    #[error("`{0}` is not a fact term such as `customer=acme`; put classes in the fifth field")]
    ClassAmongFacts(String),
    /// A fact in the classes field.
    #[error("`{0}` is not a class; put facts in the fourth field")]
    FactAmongClasses(String),
    /// An unknown option.
    #[error("`{0}` is not an option; use `until=2026-11-22T10:00Z` or `approved-by=CALLER,GROUP`")]
    Option(String),
    /// A duplicate option.
    #[error("duplicate `{0}`")]
    SecondOption(&'static str),
    /// Not a valid instant.
    #[error(transparent)]
    Instant(#[from] InstantError),
    /// `approved-by` on a `deny` rule.
    #[error("`approved-by` is valid only in an `allow` line")]
    ApprovedDenial,
    /// A group without members, probably a mistake.
    #[error("group `{0}` has no members")]
    EmptyGroup(String),
    /// A duplicate group.
    #[error("group `{0}` is defined twice")]
    SecondGroup(String),
    /// A group inside a group.
    #[error("`{0}` is a group; a group can contain only callers")]
    NestedGroup(String),
}
