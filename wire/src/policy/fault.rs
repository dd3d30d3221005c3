//! What is wrong with a policy, where, and what would have been right. That it denies therefore is said by `set`.

use std::io;
use std::path::PathBuf;

use crate::filter::FilterError;
use crate::identity::NameError;

use super::options::InstantError;

/// A policy or groups file that is not used, to be told loudly. What it speaks of is denied until it is mended.
#[derive(Debug, thiserror::Error)]
#[error("{}{}: {fault}", path.display(), place.map(|(line, column)| format!(":{line}:{column}")).unwrap_or_default())]
pub struct PolicyProblem {
    /// The file or directory.
    pub path: PathBuf,
    /// Line and column, both from 1, if a line is at fault.
    pub place: Option<(usize, usize)>,
    /// What is wrong with it.
    pub fault: PolicyFault,
}

impl PolicyProblem {
    /// The line, from 1, if one is at fault.
    pub fn line_number(&self) -> Option<usize> {
        self.place.map(|(line, _)| line)
    }
}

/// Something wrong in one line of a text.
#[derive(Debug, thiserror::Error)]
#[error("line {line}, column {column}: {fault}")]
pub struct PolicyLineFault {
    /// The line, from 1.
    pub line: usize,
    /// Where in it, in characters from 1.
    pub column: usize,
    /// What is wrong.
    pub fault: PolicyFault,
}

/// What can be wrong.
#[derive(Debug, thiserror::Error)]
pub enum PolicyFault {
    /// The file or directory cannot be read.
    #[error("cannot read it: {0}")]
    Read(io::Error),
    /// Other users could change the file or what leads to it.
    #[error("{0}")]
    Unprotected(String),
    /// More bytes than any policy has.
    #[error("more than {0} bytes")]
    TooLarge(u64),
    /// More rules than any policy has.
    #[error("more than {0} rules; put callers into groups, and several actions into one line")]
    TooMany(usize),
    /// The name before `.policy` is not one that an agent can have.
    #[error("no agent can have this name: {0}")]
    FileName(NameError),
    /// Two files whose names differ only in case.
    #[error("there are two policies for agent `{0}`; keep the one in lower case")]
    Twice(String),
    /// Neither `policy default`, nor `allow`, nor `deny`.
    #[error("a line is `policy default allow|deny`, or begins with `allow` or `deny` and a tab")]
    Unknown,
    /// Not four or five fields, and perhaps options.
    #[error(
        "{0} fields; there are 4 or 5, separated by tabs, and perhaps options: allow|deny, callers, actions, facts, classes"
    )]
    Fields(usize),
    /// Spaces where tabs belong.
    #[error(
        "fields are separated by spaces here; put a tab between them, for spaces separate words of one field"
    )]
    Spaces,
    /// The file says twice what its default is.
    #[error("a second `policy default`; the first is in line {0}")]
    SecondDefault(usize),
    /// Not the name of a caller or a group.
    #[error("`{word}` is not a caller: {error}")]
    Caller {
        /// What was given.
        word: String,
        /// Why it is no name.
        error: NameError,
    },
    /// An expression where only names can be.
    #[error("`{0}`: a group holds names; write an expression into the policy's own line")]
    GroupExpression(String),
    /// An expression that is none.
    #[error("`{word}` is not an expression for callers: {why}")]
    CallerExpression {
        /// What was given.
        word: String,
        /// What is wrong with it.
        why: String,
    },
    /// A word before the `=` that we do not know.
    #[error(
        "`{0}`: a caller is written `NAME`, `caller=NAME`, `cert=NAME` or `choria=NAME`, and a service `service=NAME`"
    )]
    CallerKind(String),
    /// Not the name of an action.
    #[error("`{word}` is not an action: {error}")]
    Action {
        /// What was given.
        word: String,
        /// Why it is no name.
        error: NameError,
    },
    /// Not facts or classes as in `-W`, nor an expression as in `-S`.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// More questions to data sources than one file may ask.
    #[error("more than {0} different questions to data sources in one policy")]
    TooManyLookups(usize),
    /// A class among the facts, which is probably a fact without its value.
    #[error("`{0}` is not a fact term such as `customer=acme`; classes are the fifth field")]
    ClassAmongFacts(String),
    /// A fact among the classes.
    #[error("`{0}` is not a class; facts are the fourth field")]
    FactAmongClasses(String),
    /// An option that there is not.
    #[error(
        "`{0}` is no option; there are `until=2026-11-22T10:00Z` and `approved-by=CALLER,GROUP`"
    )]
    Option(String),
    /// An option that is there already.
    #[error("a second `{0}`")]
    SecondOption(&'static str),
    /// Not an instant.
    #[error(transparent)]
    Instant(#[from] InstantError),
    /// A denial that somebody should approve.
    #[error("`approved-by` belongs to `allow`: what is denied cannot be approved")]
    ApprovedDenial,
    /// A group without members, which is probably a slip.
    #[error("group `{0}` has no members")]
    EmptyGroup(String),
    /// A group that is defined twice.
    #[error("group `{0}` is defined twice")]
    SecondGroup(String),
    /// A group inside a group.
    #[error("`{0}` is a group itself; groups hold callers only")]
    NestedGroup(String),
}
