//! The agent `tunnel`: connections to ports of a node through the bus.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Inputs of `open`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct TunnelOpenInput {
    /// The port on the node.
    pub port: u16,
    /// The name of the tunnel among those of the caller.
    pub tunnel: String,
    /// The caller's one-time key, 32 bytes in base64url.
    pub key: String,
}

/// Outputs of `open`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TunnelOpenOutput {
    /// The name of the tunnel.
    pub tunnel: String,
    /// The port on the node.
    pub port: u16,
    /// The node's one-time key, 32 bytes in base64url.
    pub key: String,
}

/// What the keys of a tunnel are bound to, besides both one-time keys: its subject, and the port.
pub fn key_context(subject: &str, port: u16) -> Vec<u8> {
    format!("{subject} {port}").into_bytes()
}
