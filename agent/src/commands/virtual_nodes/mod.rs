//! Virtual nodes: many nodes in one process, to test a fleet. Each has its own name, key, connection and replies, and the same pipeline as a real
//! node. Their machines are in memory: requests to them change nothing outside this process.
//!
//! `rpcd virtual` is one user of this module, the project's own benchmarks are another. Read in this order: [`VirtualNode`] is one node,
//! [`NodeTemplate`] creates nodes, [`NodeFleet`] runs many of them, [`command`] is the program.

pub mod command;
mod fleet;
mod machine;
mod node;
mod template;

pub use fleet::{NodeFleet, NodeFleetError};
pub use node::VirtualNode;
pub use template::NodeTemplate;
