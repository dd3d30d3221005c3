//! Sends requests for commands, and shows their replies.

pub mod batches;
pub mod chosen_nodes;
pub mod input_values;
pub mod inquiry;
pub mod propose;
pub mod refresh;
pub mod resume;
pub mod save;
pub mod send;
pub mod service;
pub mod words;
