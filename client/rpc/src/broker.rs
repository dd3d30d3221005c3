//! The broker, nats-server: its configuration file, and the search for its program. Starts nothing.

pub mod conf;
pub mod program;
