//! Tunnels to ports of nodes through the bus: opens them, and carries local connections over them. Shows nothing.

mod dialer;
mod error;
mod listener;
mod standard_streams;

pub use dialer::{DialedTunnel, TunnelDialer};
pub use error::TunnelError;
pub use listener::{TunnelConnectionEvent, TunnelListener};
pub use standard_streams::{ProcessInput, ProcessOutput};
