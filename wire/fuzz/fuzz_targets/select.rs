//! Select expressions: a parsed expression prints to a text that parses to an equal expression, with data sources too; the requested lookups
//! suffice for a decision.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_filter::state::{NodeFacts, NodeView};
use muster_filter::{
    DataLookupResult, EvaluationProgress, KnownLookups, SelectExpression, TruthValue,
};

fuzz_target!(|text: &str| {
    if let Ok(select) = SelectExpression::parse(text) {
        let printed = select.to_string();
        let read = SelectExpression::parse(&printed).expect("what is printed is read");
        assert_eq!(read, select);
        assert_eq!(read.to_string(), printed);
        assert!(!select.explain().contains(char::is_control));
        decide(&select);
    }
});

/// With all sources unknown, evaluation ends after at most one lookup per source, and agrees with `matches`.
fn decide(select: &SelectExpression) {
    let facts = NodeFacts::default();
    let node = NodeView::new("db1", &facts);
    let mut known = KnownLookups::default();
    loop {
        match select.evaluate(&node, &known) {
            EvaluationProgress::Decided(truth) => {
                return assert_eq!(truth == TruthValue::True, select.matches(&node));
            }
            EvaluationProgress::Needs(lookup) => {
                assert!(known.get(lookup).is_none());
                known.insert(lookup.clone(), DataLookupResult::Unknown(String::new()));
                assert!(known.len() <= select.data_lookups().len());
            }
        }
    }
}
