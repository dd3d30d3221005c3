//! Why a policy decides as it does: each rule that was looked at, and why it was not about the question.

use std::fmt;

use super::RuleVerdict;
use super::set::PolicyDecision;
use crate::Millis;
use crate::filter::DataLookup;

/// Why a question is answered as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyExplanation {
    /// The name of the file that was asked; nothing, if none speaks of the agent.
    pub policy: Option<String>,
    /// The rules that were looked at, the last of which decided unless it has a mismatch, too.
    pub steps: Vec<ExplanationStep>,
    /// The answer.
    pub decision: PolicyDecision,
    /// Questions to data sources that mattered, and whose answers nobody knew.
    pub unknown: Vec<DataLookup>,
}

/// A rule that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplanationStep {
    /// Its line.
    pub line: usize,
    /// The line as it was written.
    pub text: String,
    /// What it says.
    pub verdict: RuleVerdict,
    /// Why it did not decide; nothing, if it did.
    pub mismatch: Option<RuleMismatch>,
    /// The conditions that nobody can tell, if it depends on them: a `deny` decides then, an `allow` does not.
    pub unknown: Vec<String>,
}

/// Why a rule is not about a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleMismatch {
    /// Its time is over since this instant.
    Over(Millis),
    /// It is for these callers.
    Caller(String),
    /// It is for these actions.
    Action(Vec<String>),
    /// It is for these nodes.
    Node(String),
    /// It is for these nodes, and nobody can tell whether this is one.
    Unknown(String),
}

impl fmt::Display for RuleMismatch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Over(at) => {
                let written = i64::try_from(*at)
                    .ok()
                    .and_then(|at| jiff::Timestamp::from_millisecond(at).ok());
                match written {
                    Some(at) => write!(out, "its time was over at {at}"),
                    None => write!(out, "its time was over at {at} ms"),
                }
            }
            Self::Caller(callers) => write!(out, "it is for the callers {callers}"),
            Self::Action(actions) => write!(out, "it is for the actions {}", actions.join(" ")),
            Self::Node(nodes) => write!(out, "it is for {nodes}"),
            Self::Unknown(nodes) => {
                write!(out, "it is for {nodes}, and whether this is one is unknown")
            }
        }
    }
}
