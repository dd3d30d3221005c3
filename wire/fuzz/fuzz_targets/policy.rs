//! Policies: parsing does not panic, the decision equals the explained decision, and a text without `allow` allows nothing.
#![no_main]

use std::path::PathBuf;

use libfuzzer_sys::fuzz_target;
use muster_filter::KnownLookups;
use muster_filter::state::{NodeFacts, NodeView};
use muster_policy::{PolicyPrincipal, PolicyQuery, PolicySet, PolicySource, RuleVerdict};
use muster_wire::identity::SubjectName;

fuzz_target!(|text: &str| {
    let (policy, groups) = text.split_once("\n---\n").unwrap_or((text, ""));
    let source = |name: &str, text: &str| PolicySource {
        path: PathBuf::from(name),
        text: Ok(text.to_owned()),
    };
    let sources = [source("service.policy", policy)];
    let (set, problems) =
        PolicySet::new(sources, Some(source("groups", groups)), RuleVerdict::Deny);
    let facts = serde_json::json!({"customer": "acme", "os": {"family": "Debian"}, "n": 7});
    let facts = NodeFacts::from_value(facts).expect("facts");
    let classes = ["apache".to_owned(), "role::db".to_owned()];
    let node = NodeView::new("db1", &facts).with_classes(Some(&classes));
    let (caller, agent) = (
        PolicyPrincipal::parse("rip").expect("name"),
        SubjectName::parse("service").expect("name"),
    );
    for action in ["stop", "status"] {
        let action = SubjectName::parse(action).expect("name");
        let asked = PolicyQuery {
            caller: &caller,
            agent: &agent,
            action: &action,
            node: &node,
            inputs: None,
            now: 1_795_000_000_000,
        };
        let decision = set.decide_query(&asked, &KnownLookups::default());
        let explained = set.explain(&asked, &KnownLookups::default());
        assert_eq!(decision, explained.decision);
        let decided = explained.steps.iter().find(|step| step.mismatch.is_none());
        if let Some(step) = decided {
            assert_eq!(decision.allowed, step.verdict == RuleVerdict::Allow);
        }
        assert!(!decision.allowed || (problems.is_empty() && policy.contains("allow")));
    }
});
