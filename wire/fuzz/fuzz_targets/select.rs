//! Expressions: what is read prints itself, and the print is read as the same, data sources too; what was asked for is
//! enough to decide.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_wire::filter::{Found, Known, Progress, Select, Truth};
use muster_wire::state::{Facts, NodeView};

fuzz_target!(|text: &str| {
    if let Ok(select) = Select::parse(text) {
        let printed = select.to_string();
        let read = Select::parse(&printed).expect("what is printed is read");
        assert_eq!(read, select);
        assert_eq!(read.to_string(), printed);
        assert!(!select.explain().contains(char::is_control));
        decide(&select);
    }
});

/// With every source unknown, evaluation ends after as many questions as there are, and as `matches` says.
fn decide(select: &Select) {
    let facts = Facts::default();
    let node = NodeView {
        identity: "db1",
        facts: &facts,
        classes: &[], classes_known: true,
        agents: &[],
        collectives: &[],
    };
    let mut known = Known::default();
    loop {
        match select.evaluate(&node, &known) {
            Progress::Decided(truth) => {
                return assert_eq!(truth == Truth::True, select.matches(&node));
            }
            Progress::Needs(lookup) => {
                assert!(known.get(lookup).is_none());
                known.insert(lookup.clone(), Found::Unknown(String::new()));
                assert!(known.len() <= select.lookups().len());
            }
        }
    }
}
