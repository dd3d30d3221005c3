//! The daemon itself: its clock, counters, settings and problems.

use std::collections::BTreeMap;

use muster_ddl::{Action, ActionProperties, EmptyInput};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::RpcutilAgent;

/// Reply, to show that the node is reachable.
#[derive(Debug, JsonSchema)]
pub struct RpcutilPing;

impl Action for RpcutilPing {
    type Agent = RpcutilAgent;
    const NAME: &'static str = "ping";
    type Input = EmptyInput;
    type Output = RpcutilPingOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().examples(include_str!("ping.json"))
    }
}

/// Outputs of `ping`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RpcutilPingOutput {
    /// The node's clock, in seconds since the epoch.
    #[schemars(title = "Timestamp")]
    pub pong: u64,
}

/// Show the counters of the daemon since its start.
#[derive(Debug, JsonSchema)]
pub struct RpcutilDaemonStats;

impl Action for RpcutilDaemonStats {
    type Agent = RpcutilAgent;
    const NAME: &'static str = "daemon_stats";
    type Input = EmptyInput;
    type Output = RpcutilDaemonStatsOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read()
            .summary("version")
            .summary("agents")
            .examples(include_str!("daemon_stats.json"))
    }
}

/// Outputs of `daemon_stats`: counters since the start of the daemon, and its resource usage.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RpcutilDaemonStatsOutput {
    /// Number of threads of the daemon.
    pub threads: Option<u64>,
    /// The names of the agents.
    pub agents: Vec<String>,
    /// The process id of the daemon.
    #[schemars(title = "PID")]
    pub pid: Option<u32>,
    /// Processor time of the daemon, in seconds.
    pub times: Option<CpuTimes>,
    /// Messages that passed verification.
    #[schemars(title = "Security Validated")]
    pub validated: Option<u64>,
    /// Messages that failed verification.
    #[schemars(title = "Failed Security")]
    pub unvalidated: Option<u64>,
    /// Requests whose filter matched the node.
    #[schemars(title = "Passed Filter")]
    pub passed: Option<u64>,
    /// Requests whose filter did not match the node.
    #[schemars(title = "Failed Filter")]
    pub filtered: Option<u64>,
    /// Start of the daemon, in seconds since the epoch.
    #[schemars(title = "Start Time")]
    pub starttime: Option<u64>,
    /// Messages received.
    #[schemars(title = "Total Messages")]
    pub total: Option<u64>,
    /// Replies sent.
    pub replies: Option<u64>,
    /// The daemon's configuration file.
    #[schemars(title = "Config File")]
    pub configfile: Option<String>,
    /// The version of the daemon.
    pub version: Option<String>,
    /// Requests that arrived after their time to live had expired.
    #[schemars(title = "TTL Expired")]
    pub ttlexpired: Option<u64>,
    /// Requests that the node had seen before.
    pub replayed: Option<u64>,
    /// Requests that the policy denied.
    pub denied: Option<u64>,
    /// Memory of the daemon in bytes; shared memory is counted in part.
    pub memory_bytes: Option<u64>,
}

/// Processor time in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CpuTimes {
    /// In the daemon's own code.
    pub user: f64,
    /// In the kernel, for the daemon.
    pub system: f64,
}

/// Report problems that the daemon finds with itself and its environment.
#[derive(Debug, JsonSchema)]
pub struct RpcutilDiagnose;

impl Action for RpcutilDiagnose {
    type Agent = RpcutilAgent;
    const NAME: &'static str = "diagnose";
    type Input = EmptyInput;
    type Output = RpcutilDiagnoseOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().summary("version").examples(include_str!("diagnose.json"))
    }
}

/// Outputs of `diagnose`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RpcutilDiagnoseOutput {
    /// Number of findings.
    pub problems: u64,
    /// The findings, each with check, level (warning or error) and message.
    pub findings: Vec<DiagnoseFindingRow>,
    /// The agents and the versions of their DDLs.
    pub agents: BTreeMap<String, String>,
    /// The restrictions of each external agent on this machine.
    pub sandbox: BTreeMap<String, String>,
    /// The version of the daemon.
    pub version: Option<String>,
}

/// One problem.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DiagnoseFindingRow {
    /// Name of the check.
    pub check: String,
    /// `warning` or `error`.
    pub level: String,
    /// The problem as text.
    pub message: String,
}

/// Read one item of the daemon's configuration.
#[derive(Debug, JsonSchema)]
pub struct RpcutilGetConfigItem;

impl Action for RpcutilGetConfigItem {
    type Agent = RpcutilAgent;
    const NAME: &'static str = "get_config_item";
    type Input = RpcutilGetConfigItemInput;
    type Output = RpcutilGetConfigItemOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().summary("value").examples(include_str!("get_config_item.json"))
    }
}

/// Inputs of `get_config_item`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RpcutilGetConfigItemInput {
    /// The name of the item.
    #[schemars(title = "Configuration Item", length(max = 50), regex(pattern = "^.+$"))]
    pub item: String,
}

/// Outputs of `get_config_item`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RpcutilGetConfigItemOutput {
    /// The name of the item.
    #[schemars(title = "Property")]
    pub item: String,
    /// The value in effect; null if it is not set; secrets are hidden.
    pub value: Value,
}
