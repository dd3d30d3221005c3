//! The agent `nettest`: tests the network from the node.

use muster_ddl::{Action, ActionList, ActionProperties, AgentContract};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A name or address, with the zone of an IPv6 address.
const HOST_PATTERN: &str = "^[A-Za-z0-9:_][A-Za-z0-9:._%-]*$";

/// Tests the network from the node.
#[derive(Debug, JsonSchema)]
pub struct NettestAgent;

impl AgentContract for NettestAgent {
    const NAME: &'static str = "nettest";
    const TIMEOUT: u64 = 60;

    fn list_actions(list: &mut impl ActionList) {
        list.add::<NettestConnect>().add::<NettestDns>().add::<NettestPing>();
    }
}

/// Open a TCP connection and close it; no data is sent.
#[derive(Debug, JsonSchema)]
pub struct NettestConnect;

impl Action for NettestConnect {
    type Agent = NettestAgent;
    const NAME: &'static str = "connect";
    type Input = NettestConnectInput;
    type Output = NettestConnectOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().summary("connected").examples(include_str!("nettest/connect.json"))
    }
}

/// Inputs of `connect`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NettestConnectInput {
    /// Name or address.
    #[schemars(length(max = 253), regex(pattern = HOST_PATTERN))]
    pub host: String,
    /// TCP port, 1 to 65535.
    pub port: u32,
    /// Timeout in seconds.
    #[schemars(extend("x-default" = 2))]
    pub timeout: u64,
}

/// Outputs of `connect`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NettestConnectOutput {
    /// Whether the connection was opened.
    pub connected: bool,
    /// connected, or the error.
    pub result: String,
    /// Address and port of the connection.
    #[schemars(extend("x-type" = "any"))]
    pub address: Option<String>,
    /// Duration in milliseconds.
    #[schemars(title = "Milliseconds")]
    pub ms: f64,
}

/// Resolve a name as programs on the node do: by its hosts file, then its name servers.
#[derive(Debug, JsonSchema)]
pub struct NettestDns;

impl Action for NettestDns {
    type Agent = NettestAgent;
    const NAME: &'static str = "dns";
    type Input = NettestDnsInput;
    type Output = NettestDnsOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().examples(include_str!("nettest/dns.json"))
    }
}

/// Inputs of `dns`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NettestDnsInput {
    /// The name.
    #[schemars(length(max = 253), regex(pattern = "^[A-Za-z0-9:_][A-Za-z0-9:._-]*$"))]
    pub name: String,
    /// Timeout in seconds.
    #[schemars(extend("x-default" = 2))]
    pub timeout: u64,
}

/// Outputs of `dns`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NettestDnsOutput {
    /// The addresses, sorted.
    pub addresses: Vec<String>,
    /// Duration in milliseconds.
    #[schemars(title = "Milliseconds")]
    pub ms: f64,
}

/// Send ICMP echo requests to a host, with the node's ping program.
#[derive(Debug, JsonSchema)]
pub struct NettestPing;

impl Action for NettestPing {
    type Agent = NettestAgent;
    const NAME: &'static str = "ping";
    type Input = NettestPingInput;
    type Output = NettestPingOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().summary("alive").examples(include_str!("nettest/ping.json"))
    }
}

/// Inputs of `ping`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NettestPingInput {
    /// Name or address.
    #[schemars(length(max = 253), regex(pattern = HOST_PATTERN))]
    pub host: String,
    /// Number of requests, at most 10.
    #[schemars(extend("x-default" = 1))]
    pub count: u32,
    /// Timeout in seconds for each request, at most 10.
    #[schemars(extend("x-default" = 2))]
    pub timeout: u64,
}

/// Outputs of `ping`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NettestPingOutput {
    /// Whether any reply was received.
    pub alive: bool,
    /// Number of requests.
    pub sent: u32,
    /// Number of replies.
    pub received: u32,
    /// Average round-trip time in milliseconds.
    #[schemars(title = "Round Trip", extend("x-type" = "any"))]
    pub rtt: Option<f64>,
}
