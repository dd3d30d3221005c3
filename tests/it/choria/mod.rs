//! What Choria's own tests expect of filters, policies, inputs and summaries, asked of Muster with facts of our own: equal, refused or different, each
//! with its reason. The counts are printed.

mod filters;
mod inputs;
mod policies;
mod summaries;

use std::collections::BTreeMap;

use muster_filter::state::{NodeFacts, NodeView};

use crate::parity::print_line;

/// The node db7, of which only facts and classes are known.
fn view_of<'a>(facts: &'a NodeFacts, classes: &'a [String]) -> NodeView<'a> {
    NodeView::new("db7.example.net", facts).with_classes(Some(classes))
}

/// How an answer compares with Choria's.
#[derive(Debug, Clone, Copy)]
enum Agreement {
    Equal,
    /// Muster refuses the question. Why.
    Refused(&'static str),
    /// Muster answers otherwise. Why.
    Different(&'static str),
}

/// A question, Choria's answer, and Muster's answer or refusal.
struct Comparison {
    question: String,
    choria: String,
    muster: Result<String, String>,
    expected: Agreement,
}

impl Comparison {
    /// The kind of the comparison, if it is the expected one.
    fn check(&self) -> Result<&'static str, String> {
        match (self.expected, &self.muster) {
            (Agreement::Equal, Ok(answer)) if *answer == self.choria => Ok("equal"),
            (Agreement::Refused(_), Err(_)) => Ok("refused"),
            (Agreement::Different(_), Ok(answer)) if *answer != self.choria => Ok("different"),
            (expected, answer) => Err(format!(
                "{}: Choria {}, Muster {answer:?}, expected {expected:?}",
                self.question, self.choria
            )),
        }
    }
}

/// Checks all of them, and prints how many are equal, refused and different.
fn compare(subject: &str, comparisons: &[Comparison]) {
    let mut counts = BTreeMap::from([("equal", 0), ("refused", 0), ("different", 0)]);
    let mut surprises = Vec::new();
    for comparison in comparisons {
        match comparison.check() {
            Ok(kind) => *counts.entry(kind).or_default() += 1,
            Err(surprise) => surprises.push(surprise),
        }
    }
    let counts: Vec<_> = counts.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    print_line(&format!("Choria, {subject}: {}", counts.join(", ")));
    for Comparison { question, expected, .. } in comparisons {
        match expected {
            Agreement::Equal => {}
            Agreement::Refused(why) => print_line(&format!("  refused: {question}: {why}")),
            Agreement::Different(why) => print_line(&format!("  different: {question}: {why}")),
        }
    }
    assert!(surprises.is_empty(), "{}", surprises.join("\n"));
}
