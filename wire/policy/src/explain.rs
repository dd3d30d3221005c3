//! Explains a decision: each evaluated rule, and why it did not match.

use muster_base::format_utc;
use muster_filter::DataLookup;
use muster_wire::Millis;
use std::fmt;

use super::RuleVerdict;
use super::set::PolicyDecision;

/// The explanation of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyExplanation {
    /// The name of the policy file; `None` if no file applies to the agent.
    pub policy: Option<String>,
    /// The evaluated rules. The last one decided, unless it has a mismatch.
    pub steps: Vec<ExplanationStep>,
    /// The decision.
    pub decision: PolicyDecision,
    /// Relevant data source lookups without a result.
    pub unknown: Vec<DataLookup>,
}

/// An evaluated rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplanationStep {
    /// Its line number.
    pub line: usize,
    /// The line as written.
    pub text: String,
    /// Its verdict.
    pub verdict: RuleVerdict,
    /// Why it did not decide; `None` if it did.
    pub mismatch: Option<RuleMismatch>,
    /// The unknown conditions, if the result depends on them: a `deny` then decides, an `allow` does not.
    pub unknown: Vec<String>,
}

/// Why a rule does not match a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleMismatch {
    /// It expired at this instant.
    Expired(Millis),
    /// It applies to these callers.
    Caller(String),
    /// It applies to these actions.
    Action(Vec<String>),
    /// It applies to requests with these inputs.
    Input(String),
    /// It applies to these nodes.
    Node(String),
    /// It applies to these nodes, and whether this node matches is unknown.
    Unknown(String),
}

impl fmt::Display for RuleMismatch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired(at) => {
                write!(out, "it expired at {}", format_utc(at / 1000))
            }
            Self::Caller(callers) => write!(out, "it applies to the callers {callers}"),
            Self::Action(actions) => write!(out, "it applies to the actions {}", actions.join(" ")),
            Self::Input(inputs) => write!(out, "it applies to requests with {inputs}"),
            Self::Node(nodes) => write!(out, "it applies to {nodes}"),
            Self::Unknown(nodes) => {
                write!(out, "it applies to {nodes}; whether this node matches is unknown")
            }
        }
    }
}
