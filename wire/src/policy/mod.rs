//! Who may have which action of which agent run on a node: `MCollective`'s action policies, with nothing skipped and nothing guessed.
//!
//! `<agent>.policy` holds one rule a line, its fields separated by tabs, and the first that matches decides:
//!
//! ```text
//! policy default deny
//! # allow|deny  callers        actions         facts                   classes            options (both may be left out)
//! allow         rip sysadmins  *               *                       *
//! deny          *              restart         environment=production
//! allow         /^ci-\d+$/     status          customer=acme os.family=Debian  mysql::master /^role::/
//! allow         oncall         restart         (country=uk or country=de) and not apache
//! allow         eve            stop            *    *    until=2026-11-22T10:00Z
//! allow         oncall         stop            *    *    approved-by=sysadmins
//! ```
//!
//! Callers are names, compared whole; groups of the file `groups` (`sysadmins rip anna`); or `/expressions/` that must match the
//! whole name. A plain name or expression is about callers only. A service is written `service=NAME` or `service=/expression/`, also in
//! groups. `*` is every caller and every service. Facts and classes read as the words of `-W`, all of which must hold, or as one expression of `-S`. A file with
//! one line that is not understood denies everything for its agent, and a broken `groups` for all: a line that was skipped
//! might have been a `deny`.
//!
//! An agent without a file has `default.policy`; without that, `rpcutil` and `data` have [`DEFAULT_OPEN_POLICY`], so that a fresh node
//! can be found and asked what it is, and every other agent has the configuration's default, which is to deny.
//!
//! Expressions may ask data sources: `puppet().enabled=false`. What is unknown does not match an `allow` line, and does match a `deny`
//! line. Facts and classes are unknown while one of their sources has never been read since the daemon's start.
//!
//! Everything here is a function of texts, and of what is [`Known`](crate::filter::KnownLookups) of data sources: whoever has a directory of
//! policies reads it, and makes a [`PolicySet`] of what it read. [`PolicySet::evaluate_query`] answers a question or says what it
//! must know first, [`PolicySet::decide_query`] answers with what is known, and [`PolicySet::explain`] says why; they cannot
//! differ, for the one is part of the other.

mod callers;
mod explain;
mod fault;
mod file;
mod groups;
mod options;
mod principal;
mod rule;
mod set;
mod span;

pub use callers::{CallerSet, CallerWord};
pub use explain::{ExplanationStep, PolicyExplanation, RuleMismatch};
pub use fault::{PolicyFault, PolicyLineFault, PolicyProblem};
pub use file::{MAX_POLICY_LOOKUPS, PolicyFile};
pub use groups::CallerGroups;
pub use options::{InstantError, parse_instant};
pub use principal::{PolicyPrincipal, PrincipalError, PrincipalRole};
pub use rule::PolicyRule;
pub use set::{
    DEFAULT_OPEN_POLICY, GROUPS_FILE_NAME, MAX_POLICY_FILE_BYTES, PolicyDecision, PolicySet,
    PolicySource,
};

use serde::{Deserialize, Serialize};

use crate::Millis;
use crate::identity::SubjectName;
use crate::state::NodeView;

/// What a rule says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleVerdict {
    /// The caller may.
    Allow,
    /// The caller may not.
    Deny,
}

impl RuleVerdict {
    /// The word for it, as it stands in policies.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }

    fn from_word(word: &str) -> Option<Self> {
        match word {
            "allow" => Some(Self::Allow),
            "deny" => Some(Self::Deny),
            _ => None,
        }
    }
}

/// What a policy is asked.
#[derive(Debug, Clone, Copy)]
pub struct PolicyQuery<'a> {
    /// Who asks.
    pub caller: &'a PolicyPrincipal,
    /// The agent.
    pub agent: &'a SubjectName,
    /// The action.
    pub action: &'a SubjectName,
    /// The node that is asked.
    pub node: &'a NodeView<'a>,
    /// The time, by the node's clock.
    pub now: Millis,
}

#[cfg(test)]
mod tests;
