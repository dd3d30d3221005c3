//! The machine as a node describes it: facts, classes, and the state of subsystems.

pub mod classes;
pub mod facts;
pub mod node_description;
pub mod node_state;
