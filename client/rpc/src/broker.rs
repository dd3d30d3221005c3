//! The broker, which is nats-server: its configuration as text, and where the program is. Nothing is started here.

pub mod conf;
pub mod program;
