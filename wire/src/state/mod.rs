//! What is known of a node, as values: facts, and the view of a node that filters are held against.
//!
//! Nothing here reads a machine or a store; the daemon, the directory and the client each build these
//! values from what they have, and so get the same answers.

pub mod facts;
pub mod path;

pub use facts::{NodeFacts, NodeFactsError};
pub use path::{FactPath, FactPathError};

/// A node as a filter sees it. Borrowed, so that matching copies nothing.
#[derive(Debug, Clone, Copy)]
pub struct NodeView<'a> {
    /// The node's name, lower-case.
    pub identity: &'a str,
    /// Its facts, nested as collected.
    pub facts: &'a NodeFacts,
    /// Its configuration-management classes, lower-case (`mysql::master`).
    pub classes: &'a [String],
    /// Whether the classes were ever read; otherwise which it has is unknown.
    pub classes_known: bool,
    /// The agents it offers (`puppetral`).
    pub agents: &'a [String],
    /// The collectives it has joined.
    pub collectives: &'a [String],
}
