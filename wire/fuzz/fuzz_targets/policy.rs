//! Policies: nothing that is read makes the reader panic, the answer is the one that is explained, and nothing is allowed by a text
//! that does not say `allow`.
#![no_main]

use std::path::PathBuf;

use libfuzzer_sys::fuzz_target;
use muster_wire::filter::Known;
use muster_wire::identity::Name;
use muster_wire::policy::{PolicyPrincipal, PolicySet, Question, Source, Verdict};
use muster_wire::state::{Facts, NodeView};

fuzz_target!(|text: &str| {
    let (policy, groups) = text.split_once("\n---\n").unwrap_or((text, ""));
    let source = |name: &str, text: &str| Source {
        path: PathBuf::from(name),
        text: Ok(text.to_owned()),
    };
    let sources = [source("service.policy", policy)];
    let (set, problems) = PolicySet::new(sources, Some(source("groups", groups)), Verdict::Deny);
    let facts = serde_json::json!({"customer": "acme", "os": {"family": "Debian"}, "n": 7});
    let facts = Facts::from_value(facts).expect("facts");
    let classes = ["apache".to_owned(), "role::db".to_owned()];
    let node = NodeView {
        identity: "db1",
        facts: &facts,
        classes: &classes, classes_known: true,
        agents: &[],
        collectives: &[],
    };
    let (caller, agent) = (PolicyPrincipal::parse("rip").expect("name"), Name::parse("service").expect("name"));
    for action in ["stop", "status"] {
        let action = Name::parse(action).expect("name");
        let asked = Question {
            caller: &caller,
            agent: &agent,
            action: &action,
            node: &node,
            now: 1_795_000_000_000,
        };
        let decision = set.decide(&asked, &Known::default());
        let explained = set.explain(&asked, &Known::default());
        assert_eq!(decision, explained.decision);
        let decided = explained.steps.iter().find(|step| step.mismatch.is_none());
        if let Some(step) = decided {
            assert_eq!(decision.allowed, step.verdict == Verdict::Allow);
        }
        assert!(!decision.allowed || (problems.is_empty() && policy.contains("allow")));
    }
});
