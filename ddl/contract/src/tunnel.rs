//! The agent `tunnel`: connections to ports of a node through the bus.

use muster_ddl::{Action, ActionList, ActionProperties, AgentContract};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Connects callers to ports of the node through the bus.
#[derive(Debug, JsonSchema)]
pub struct TunnelAgent;

impl AgentContract for TunnelAgent {
    const NAME: &'static str = "tunnel";
    const TIMEOUT: u64 = 10;

    fn list_actions(list: &mut impl ActionList) {
        list.add::<TunnelOpen>();
    }
}

/// Connect to a port on 127.0.0.1 of the node, and carry the connection over the bus until it ends.
#[derive(Debug, JsonSchema)]
pub struct TunnelOpen;

impl Action for TunnelOpen {
    type Agent = TunnelAgent;
    const NAME: &'static str = "open";
    type Input = TunnelOpenInput;
    type Output = TunnelOpenOutput;

    fn properties() -> ActionProperties {
        ActionProperties::change().examples(include_str!("tunnel/open.json"))
    }
}

/// Inputs of `open`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct TunnelOpenInput {
    /// The TCP port; it must be among `ports` of [plugins.tunnel].
    pub port: u16,
    /// The name of the tunnel among those of the caller, part of its subjects.
    #[schemars(length(max = 32), regex(pattern = r"\A[0-9a-f]{32}\z"))]
    pub tunnel: String,
    /// The caller's one-time X25519 key, 32 bytes in base64url.
    #[schemars(length(max = 43), regex(pattern = r"\A[A-Za-z0-9_-]{43}\z"))]
    pub key: String,
}

/// Outputs of `open`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TunnelOpenOutput {
    /// The name of the tunnel.
    pub tunnel: String,
    /// The port.
    pub port: u16,
    /// The node's one-time X25519 key, 32 bytes in base64url.
    pub key: String,
}

/// What the keys of a tunnel are bound to, besides both one-time keys: its subject, and the port.
pub fn key_context(subject: &str, port: u16) -> Vec<u8> {
    format!("{subject} {port}").into_bytes()
}
