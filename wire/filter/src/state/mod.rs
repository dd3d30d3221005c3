//! Node state as values: facts, and the view of a node for filter evaluation.
//!
//! Nothing here reads a machine or a store. The daemon, the directory and the client each build these values from their own
//! data, so filters evaluate identically in all of them.

pub mod facts;
pub mod path;

pub use facts::{NodeFacts, NodeFactsError};
pub use path::{FactPath, FactPathError};

/// A node as seen by filters. Borrowed, so that matching copies nothing.
#[derive(Debug, Clone, Copy)]
pub struct NodeView<'a> {
    /// The node's name, lower-case.
    pub identity: &'a str,
    /// Its facts, nested as collected.
    pub facts: &'a NodeFacts,
    /// Its configuration-management classes, lower-case (`mysql::master`).
    pub classes: &'a [String],
    /// Whether the classes were read at least once; otherwise they are unknown.
    pub classes_known: bool,
    /// The agents it offers (`puppetral`).
    pub agents: &'a [String],
    /// The collectives it has joined.
    pub collectives: &'a [String],
    /// What its subsystems report, by their names (`puppet`); `None` while it is unknown.
    pub state: Option<&'a NodeFacts>,
}
