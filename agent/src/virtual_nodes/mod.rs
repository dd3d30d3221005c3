//! Many nodes in one process, for trying what a fleet can be asked: each with its own name, key, connection and answers, and the same
//! pipeline as a real one. Their machines are in memory: whatever is asked of them, nothing outside of this process changes.
//!
//! `rpcd virtual` is one user of it, the project's own measurements are another. Read in this order: [`VirtualNode`] says who they are,
//! [`NodeTemplate`] makes one, [`NodeFleet`] keeps many running, [`command`] is the program.

pub mod command;
mod fleet;
mod machine;
mod node;
mod template;

pub use fleet::{NodeFleet, NodeFleetError};
pub use node::VirtualNode;
pub use template::NodeTemplate;
