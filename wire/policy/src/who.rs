//! Who may run an action on a node: the decision for each caller that its policy names, and for all others.

use std::collections::BTreeSet;

use muster_filter::KnownLookups;
use muster_filter::state::NodeView;
use muster_wire::Millis;
use muster_wire::identity::SubjectName;

use super::principal::PolicyPrincipal;
use super::set::{PolicyDecision, PolicySet};
use super::{PolicyQuery, RuleVerdict};

/// Names that no organisation gives anybody.
const ANY_OTHER_CALLER: &str = "no-such-caller-81c52c1e";
const ANY_OTHER_SERVICE: &str = "service=no-such-service-81c52c1e";

/// What a policy decides for a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallerDecision {
    /// The caller, `service=NAME`, an expression as written, or `*` and `service=*` for all that are not named.
    pub caller: String,
    /// The decision. That of an expression is its line's, for names that no earlier line decides.
    pub decision: PolicyDecision,
}

impl PolicySet {
    /// The decisions about an action on this node, with the inputs and data sources that are unknown: callers by name, then expressions, then all others.
    pub fn decide_callers(
        &self,
        agent: &SubjectName,
        action: &SubjectName,
        node: &NodeView<'_>,
        now: Millis,
    ) -> Vec<CallerDecision> {
        let decide = |caller: &PolicyPrincipal| {
            let query = PolicyQuery { caller, agent, action, node, inputs: None, now };
            self.decide_query(&query, &KnownLookups::default())
        };
        let (names, expressions) = self.list_callers(agent, action);
        let decided = names
            .iter()
            .map(|caller| CallerDecision { caller: caller.to_string(), decision: decide(caller) });
        let others = [("*", ANY_OTHER_CALLER), ("service=*", ANY_OTHER_SERVICE)];
        let others = others.into_iter().filter_map(|(shown, name)| {
            let decision = decide(&PolicyPrincipal::parse(name).ok()?);
            Some(CallerDecision { caller: shown.to_owned(), decision })
        });
        decided.chain(expressions).chain(others).collect()
    }

    /// The names and the expressions in the lines about an action.
    fn list_callers(
        &self,
        agent: &SubjectName,
        action: &SubjectName,
    ) -> (BTreeSet<PolicyPrincipal>, Vec<CallerDecision>) {
        let (mut names, mut expressions) = (BTreeSet::new(), Vec::new());
        let Some((name, file)) = self.policy_in_force(agent) else { return (names, expressions) };
        for rule in file.rules() {
            if rule.actions().is_some_and(|actions| !actions.contains(action)) {
                continue;
            }
            names.extend(rule.callers().names().iter().cloned());
            let is_expression = |text: &&str| text.contains('/');
            for text in rule.callers().words().iter().map(|word| word.text.as_str()) {
                let Some(text) = Some(text).filter(is_expression) else { continue };
                let decision = PolicyDecision {
                    allowed: rule.verdict() == RuleVerdict::Allow,
                    rule: format!("{name}:{}", rule.line_number()),
                    approved_by: rule.approvers().map(ToString::to_string),
                };
                expressions.push(CallerDecision { caller: text.to_owned(), decision });
            }
        }
        (names, expressions)
    }
}
