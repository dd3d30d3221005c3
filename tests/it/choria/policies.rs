//! Action policies: callers, actions, facts, classes, groups, and lines that cannot be read.

use std::path::PathBuf;

use muster_filter::KnownLookups;
use muster_filter::state::NodeFacts;
use muster_policy::{PolicyPrincipal, PolicyQuery, PolicySet, PolicySource, RuleVerdict};
use muster_wire::identity::SubjectName;
use serde_json::json;

use super::Agreement::{self, Different, Equal, Refused};
use super::{Comparison, compare, view_of};

const COMPOUND: &str =
    "Choria's Go server refuses compound statements; Muster evaluates them, as MCollective did";
const UID: &str = "a user id of an unnamed machine identifies no caller: the line is malformed, and the file denies everything";
const PREFIX: &str = "an expression must match the whole name of a caller, which has no prefix; one that matches none is refused";

const GROUPS: &str =
    "operators cert=ann cert=ben rspec\ndevelopers cert=cat cert=dan\nalone rspec\n";

fn source(name: &str, text: &str) -> PolicySource {
    PolicySource { path: PathBuf::from(name), text: Ok(text.to_owned()) }
}

/// `allow` or `deny` for a node in zone a with the classes `one`, `two` and `three`, or the fault of the file.
fn decide(policy: &str, caller: &str, action: &str) -> Result<String, String> {
    let (policy, groups) = (source("backup.policy", policy), source("groups", GROUPS));
    let (set, problems) = PolicySet::new([policy], Some(groups), RuleVerdict::Deny);
    if let Some(problem) = problems.first() {
        return Err(problem.to_string());
    }
    let facts = NodeFacts::from_value(json!({"zone": "a", "one": "one"})).unwrap();
    let classes = ["one", "two", "three"].map(str::to_owned);
    let node = view_of(&facts, &classes);
    let query = PolicyQuery {
        caller: &PolicyPrincipal::parse(caller).map_err(|error| error.to_string())?,
        agent: &SubjectName::parse("backup").unwrap(),
        action: &SubjectName::parse(action).unwrap(),
        node: &node,
        inputs: None,
        now: 0,
    };
    let allowed = set.decide_query(&query, &KnownLookups::default()).allowed;
    Ok(if allowed { "allow" } else { "deny" }.to_owned())
}

/// The line after `policy default deny`, caller, action, whether Choria allows it.
type Case = (&'static str, &'static str, &'static str, bool, Agreement);

fn compare_lines(subject: &str, cases: &[Case]) {
    let asked = cases.iter().map(|(line, caller, action, choria, expected)| Comparison {
        question: format!("{} | {caller} {action}", line.replace(['\t', '\n'], "  ")),
        choria: if *choria { "allow" } else { "deny" }.to_owned(),
        muster: decide(&format!("policy default deny\n{line}\n"), caller, action),
        expected: *expected,
    });
    compare(subject, &asked.collect::<Vec<_>>());
}

#[test]
fn lines_of_policies_decide_as_in_choria() {
    let anyone = "allow\t*\t*\t*\t*";
    let caller = "allow\tchoria=eve choria=joe\t*\t*\t*";
    let prefixed = "allow\tchoria=eve /^up=/ choria=joe\t*\t*\t*";
    let action = "allow\t*\trun\t*\t*";
    let fact = "allow\t*\t*\tzone=a\t*";
    let other_fact = "allow\t*\t*\tzone=b\t*";
    let class = "allow\t*\t*\t*\tone";
    let other_class = "allow\t*\t*\t*\tfour";
    let both = "allow\tchoria=eve\trun\t*\t*";
    let all = "allow\tchoria=eve\trun\tzone=a\tone two three";
    let actions = "allow\tchoria=eve\tenable disable status\tzone=a\t*";
    compare_lines(
        "lines of policies",
        &[
            ("", "eve", "run", false, Equal),
            (anyone, "eve", "run", true, Equal),
            (caller, "choria=eve", "run", true, Equal),
            (caller, "choria=joe", "run", true, Equal),
            (caller, "other", "run", false, Equal),
            (prefixed, "up=bob", "run", true, Refused(PREFIX)),
            (action, "eve", "run", true, Equal),
            (action, "eve", "other", false, Equal),
            (fact, "eve", "run", true, Equal),
            (other_fact, "eve", "run", false, Equal),
            ("allow\t*\t*\tone=~/n/\t*", "eve", "run", true, Equal),
            // Several tabs are one separator, in both.
            ("allow\t\t*\t\t*\t\tzone=a\t\tone", "eve", "run", true, Equal),
            (class, "eve", "run", true, Equal),
            (other_class, "eve", "run", false, Equal),
            ("allow\t*\t*\t*\tone two four", "eve", "run", false, Equal),
            (both, "eve", "run", true, Equal),
            (both, "eve", "other", false, Equal),
            (both, "other", "run", false, Equal),
            (all, "eve", "run", true, Equal),
            (all, "eve", "other", false, Equal),
            (all, "other", "run", false, Equal),
            ("allow\tchoria=eve\trun\tzone=b\tone", "eve", "run", false, Equal),
            ("allow\tchoria=eve\trun\tzone=a\tfour", "eve", "run", false, Equal),
            (actions, "eve", "enable", true, Equal),
            (actions, "eve", "disable", true, Equal),
            (actions, "eve", "status", true, Equal),
            (actions, "eve", "install", false, Equal),
            ("allow\toperators developers\t*\t*\t*", "cert=ann", "run", true, Equal),
            ("allow\toperators developers\t*\t*\t*", "cert=cat", "run", true, Equal),
            ("allow\toperators developers\t*\t*\t*", "other", "run", false, Equal),
            ("allow\tuid=500 uid=600\t*\t*\t*", "eve", "run", false, Refused(UID)),
        ],
    );
}

#[test]
fn lines_that_choria_cannot_evaluate_allow_nobody_by_mistake() {
    let broken =
        "a line that cannot be read denies everything of its file, and is named at the start";
    compare_lines(
        "lines that Choria cannot evaluate",
        &[
            ("allow\t*\t*\tzone=a and one=one\t*", "eve", "run", false, Different(COMPOUND)),
            ("allow\t*\t*\tzone=b or one=one\t*", "eve", "run", false, Different(COMPOUND)),
            ("allow\t*\t*\t*\tone and not four", "eve", "run", false, Different(COMPOUND)),
            ("allow\t*\t*\tzone=b and one=one\t*", "eve", "run", false, Equal),
            ("allow\t*\t*\tzone a\t*", "eve", "run", false, Refused(broken)),
            ("allow\tchoria=bob //\t*\t*\t*", "eve", "run", false, Refused(broken)),
            ("allow\tchoria=bob /*/\t*\t*\t*", "eve", "run", false, Refused(broken)),
        ],
    );
    let allowed = Comparison {
        question: "policy default allow".to_owned(),
        choria: "allow".to_owned(),
        muster: decide("policy default allow\n", "eve", "run"),
        expected: Equal,
    };
    compare("defaults of policies", &[allowed]);
}
