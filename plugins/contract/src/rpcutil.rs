//! The agent `rpcutil`: what a node and its daemon report about themselves.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Outputs of `inventory`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RpcutilInventoryOutput {
    /// Names of the agents, sorted.
    pub agents: Vec<String>,
    /// The facts.
    pub facts: Map<String, Value>,
    /// The classes of the node's catalog.
    pub classes: Vec<String>,
    /// The state of subsystems, by name; absent while it is unknown.
    pub state: Option<Map<String, Value>>,
    /// Version of the daemon.
    pub version: String,
    /// The main collective.
    pub main_collective: Option<String>,
    /// All collectives, the main one first.
    pub collectives: Vec<String>,
    /// Names of the data sources.
    pub data_plugins: Vec<String>,
    /// Agents that could not be loaded, with the file and the error.
    pub agent_problems: Vec<AgentProblemRow>,
}

/// An error in the files of one agent.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentProblemRow {
    /// The agent.
    pub agent: String,
    /// The file.
    pub path: String,
    /// The error as text.
    pub problem: String,
}

/// Outputs of `collective_info`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RpcutilCollectiveInfoOutput {
    /// The main collective.
    pub main_collective: Option<String>,
    /// All collectives, the main one first.
    pub collectives: Vec<String>,
}

/// Outputs of `daemon_stats`: counters since the start of the daemon, and its resource usage.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RpcutilDaemonStatsOutput {
    /// Number of threads.
    pub threads: Option<u64>,
    /// Names of the agents, sorted.
    pub agents: Vec<String>,
    /// Process id.
    pub pid: Option<u32>,
    /// Processor time.
    pub times: Option<CpuTimes>,
    /// Authentic messages.
    pub validated: Option<u64>,
    /// Messages that were not authentic.
    pub unvalidated: Option<u64>,
    /// Messages that matched the node.
    pub passed: Option<u64>,
    /// Messages for other nodes.
    pub filtered: Option<u64>,
    /// When the daemon started, in seconds since 1970.
    pub starttime: Option<u64>,
    /// All messages.
    pub total: Option<u64>,
    /// Replies that were sent.
    pub replies: Option<u64>,
    /// Path of the configuration file.
    pub configfile: Option<String>,
    /// Version of the daemon.
    pub version: Option<String>,
    /// Messages that were too old or from the future.
    pub ttlexpired: Option<u64>,
    /// Messages that were seen before.
    pub replayed: Option<u64>,
    /// Requests that a policy denied.
    pub denied: Option<u64>,
    /// Proportional set size of the process, in bytes.
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

/// Outputs of `ddl`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RpcutilDdlOutput {
    /// Version of the agent.
    pub version: String,
    /// SHA-256 of the bytes of `ddl`, in hexadecimal digits.
    pub sha256: String,
    /// The DDL as JSON text.
    pub ddl: String,
}

/// Outputs of `diagnose`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RpcutilDiagnoseOutput {
    /// Number of findings.
    pub problems: u64,
    /// Problems of the daemon and its environment.
    pub findings: Vec<DiagnoseFindingRow>,
    /// Version of each agent.
    pub agents: BTreeMap<String, String>,
    /// Sandbox of each external agent, as text.
    pub sandbox: BTreeMap<String, String>,
    /// Version of the daemon.
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

/// Outputs of `running`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RpcutilRunningOutput {
    /// Number of requests.
    #[serde(default)]
    pub count: usize,
    /// Requests that run or wait on the node.
    pub requests: Vec<RunningRequestRow>,
}

/// One request.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RunningRequestRow {
    /// The request's id, a UUID.
    pub id: String,
    /// Its caller.
    pub caller: String,
    /// The agent.
    pub agent: String,
    /// The action.
    pub action: String,
    /// When it was accepted, by the node's clock, in milliseconds since 1970.
    pub since: u64,
}

/// Outputs of `cancel` and `cancel_any`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RpcutilCancelOutput {
    /// The result.
    #[schemars(with = "String")]
    pub outcome: CancelOutcome,
    /// Caller of the cancelled request.
    pub caller: Option<String>,
    /// Its agent.
    pub agent: Option<String>,
    /// Its action.
    pub action: Option<String>,
}

/// Result of a request to cancel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelOutcome {
    /// The request was cancelled.
    Cancelled,
    /// Its work does not begin; work that had begun goes on.
    Withdrawn,
    /// The request neither runs nor waits on the node.
    NotRunning,
    /// Not given, or an outcome of a later version.
    #[default]
    #[serde(other)]
    Unknown,
}

/// Outputs of `get_fact`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RpcutilGetFactOutput {
    /// The dotted path of the fact.
    pub fact: String,
    /// Null if the node has no such fact.
    pub value: Value,
}

/// Outputs of `get_facts`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RpcutilGetFactsOutput {
    /// The requested facts by their dotted paths; null for those that the node does not have.
    pub values: Map<String, Value>,
}
