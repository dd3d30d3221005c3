//! Query documents and PQL: a parsed query prints to a text that parses to an equal query, and evaluation agrees with its negation.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use muster_filter::state::{NodeFacts, NodeView};
use muster_filter::{DocumentQuery, NodeFilter, TruthValue};
use serde_json::json;

static FACTS: LazyLock<NodeFacts> = LazyLock::new(|| {
    let facts = json!({
        "a": [1, "b", null, {"b": [{"c": "5"}, 5.5]}], "b": {"a.b": true, "$d": {}}, "c": "2026-11-26T08:00:00Z",
    });
    NodeFacts::from_value(facts).expect("facts within the limits")
});

fuzz_target!(|text: &str| {
    let Ok(query) = DocumentQuery::parse_written(text) else { return };
    let printed = query.to_string();
    let read = DocumentQuery::parse(&printed).expect("what is printed is read");
    assert_eq!(read, query);
    assert_eq!(read.to_string(), printed);
    assert!(!query.explain().contains(char::is_control));
    let names = ["a".to_owned(), "B".to_owned()];
    let node = NodeView::new("db1", &FACTS)
        .with_classes(Some(&names))
        .with_agents(&names)
        .with_collectives(&names);
    let truth = query.evaluate(&node);
    assert_ne!(truth, TruthValue::Unknown);
    if let Ok(negated) = DocumentQuery::parse(&format!("{{$nor:[{printed}]}}")) {
        assert_eq!(negated.evaluate(&node), !truth);
    }
    let _ = DocumentQuery::parse_loose(text).map(|loose| loose.matches(&node));
    let filter = NodeFilter::default().with_query(text).expect("a parsed query within the limits");
    assert_eq!(filter.matches(&node), truth == TruthValue::True);
    if truth == TruthValue::True {
        assert!(filter.necessary_conditions().iter().all(|condition| condition.holds(&node)));
    }
});
