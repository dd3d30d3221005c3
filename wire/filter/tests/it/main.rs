//! Tests of the public functions for filters, in one binary.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod document;
mod filter;
mod long;
mod mongodb;
mod pql;
mod pql_answers;
mod pql_syntax;
mod reference;
mod select;
mod sources;

use muster_filter::state::{NodeFacts, NodeView};

/// The view of a node without agents, collectives and state.
fn view_of<'a>(facts: &'a NodeFacts, classes: &'a [String]) -> NodeView<'a> {
    NodeView::new("db1", facts).with_classes(Some(classes))
}
