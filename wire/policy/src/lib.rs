//! Access policies: which callers may run which actions of an agent on a node. Implements `MCollective`'s action policies; lines that
//! cannot be parsed are never skipped.
//!
//! `<agent>.policy` holds one rule per line with tab-separated fields. The first matching rule decides:
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
//! allow         dba            open            *    *    input:port=5432,5433
//! ```
//!
//! Callers are exact names, groups of the file `groups` (`sysadmins rip anna`), or `/expressions/` that must match the whole name.
//! A plain name or expression matches callers only. A service is written `service=NAME` or `service=/expression/`, also in
//! groups. `*` matches every caller and every service. Facts and classes are the words of `-W`, all of which must match, or one expression
//! of `-S`. A file with an invalid line denies everything for its agent, and an invalid `groups` file denies everything for all agents,
//! because a skipped line might have been a `deny`.
//!
//! An agent without a file uses `default.policy`. Without that file, `rpcutil` and `data` use [`DEFAULT_OPEN_POLICY`], so that a fresh node
//! can be discovered and queried, and every other agent uses the configured default, which is deny.
//!
//! `input:NAME=VALUE,VALUE` restricts a rule to requests whose input has one of these values, as text. An input that is missing has none of them, and
//! several conditions must all match.
//!
//! Expressions may use data sources: `puppet().enabled=false`. An unknown condition does not match an `allow` line, and matches a `deny`
//! line. Facts and classes are unknown until each of their sources was read once since the daemon's start.
//!
//! Everything here is a pure function of texts and of the data source results in [`KnownLookups`]: the
//! caller reads the policy directory and builds a [`PolicySet`] from it. [`PolicySet::evaluate_query`] returns a decision or the next
//! needed lookup, [`PolicySet::decide_query`] decides with the known results, and [`PolicySet::explain`] returns the reasons. All three share one
//! implementation, so their decisions cannot differ.

#![warn(missing_docs)]

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
mod who;

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
    PolicySource, is_fault,
};
pub use who::CallerDecision;

use serde::{Deserialize, Serialize};

use muster_filter::KnownLookups;
use muster_filter::state::NodeView;
use muster_wire::Millis;
use muster_wire::identity::SubjectName;
use serde_json::{Map, Value};

/// The verdict of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleVerdict {
    /// The caller is permitted.
    Allow,
    /// The caller is denied.
    Deny,
}

impl RuleVerdict {
    /// The verdict's keyword in policies.
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

/// A policy query.
#[derive(Debug, Clone, Copy)]
pub struct PolicyQuery<'a> {
    /// The requesting caller or service.
    pub caller: &'a PolicyPrincipal,
    /// The agent.
    pub agent: &'a SubjectName,
    /// The action.
    pub action: &'a SubjectName,
    /// The target node.
    pub node: &'a NodeView<'a>,
    /// The inputs of the request, as far as they are known.
    pub inputs: Option<&'a Map<String, Value>>,
    /// The time, by the node's clock.
    pub now: Millis,
}

/// A query, and the results that its evaluation may use.
#[derive(Clone, Copy)]
struct EvaluationInput<'a> {
    query: &'a PolicyQuery<'a>,
    known: &'a KnownLookups,
}

#[cfg(test)]
mod tests;
