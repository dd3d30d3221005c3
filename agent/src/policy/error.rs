//! What is wrong with a policy, where, and that it therefore denies.

use std::io;
use std::path::PathBuf;

use muster_wire::filter::FilterError;
use muster_wire::identity::NameError;

/// A policy or groups file that is not used, to be told loudly. What it speaks of is denied until it is mended.
#[derive(Debug, thiserror::Error)]
#[error("{}{}: {fault}", path.display(), line.map(|line| format!(":{line}")).unwrap_or_default())]
pub struct PolicyProblem {
    /// The file or directory.
    pub path: PathBuf,
    /// The line, from 1, if one is at fault.
    pub line: Option<usize>,
    /// What is wrong with it.
    pub fault: PolicyFault,
}

/// What can be wrong.
#[derive(Debug, thiserror::Error)]
pub enum PolicyFault {
    /// The file or directory cannot be read.
    #[error("cannot read it: {0}")]
    Read(io::Error),
    /// More bytes than any policy has.
    #[error("more than {0} bytes")]
    TooLarge(u64),
    /// The name before `.policy` is not one that an agent can have.
    #[error("no agent can have this name: {0}")]
    FileName(NameError),
    /// Two files whose names differ only in case.
    #[error("there are two policies for agent `{0}`; keep the one in lower case")]
    Twice(String),
    /// Neither `policy default`, nor `allow`, nor `deny`.
    #[error("a line is `policy default allow|deny`, or begins with `allow` or `deny` and a tab")]
    Unknown,
    /// Not four or five fields.
    #[error(
        "{0} fields; there are 4 or 5, separated by tabs: allow|deny, callers, actions, facts, classes"
    )]
    Fields(usize),
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
    /// An expression where names are compared whole.
    #[error("`{0}`: callers are compared exactly; name them, or a group of them")]
    CallerExpression(String),
    /// A word before the `=` that we do not know.
    #[error("`{0}`: a caller is written `NAME`, `caller=NAME`, `cert=NAME` or `choria=NAME`")]
    CallerKind(String),
    /// Not the name of an action.
    #[error("`{word}` is not an action: {error}")]
    Action {
        /// What was given.
        word: String,
        /// Why it is no name.
        error: NameError,
    },
    /// Not facts or classes as in `-W`.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// A class among the facts, which is probably a fact without its value.
    #[error("`{0}` is not a fact term such as `customer=acme`; classes are the fifth field")]
    ClassAmongFacts(String),
    /// A fact among the classes.
    #[error("`{0}` is not a class; facts are the fourth field")]
    FactAmongClasses(String),
    /// Part of a compound expression of `MCollective`.
    #[error("`{0}`: compound expressions are not known here; write a line for each alternative")]
    Compound(String),
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
