//! The agent `rpcutil`: what a node and its daemon report about themselves.

mod daemon;
mod requests;

use muster_base::NodeText;
use muster_ddl::{Action, ActionList, ActionProperties, AgentContract, EmptyInput};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use daemon::{
    CpuTimes, DiagnoseFindingRow, RpcutilDaemonStats, RpcutilDaemonStatsOutput, RpcutilDiagnose,
    RpcutilDiagnoseOutput, RpcutilGetConfigItem, RpcutilGetConfigItemInput,
    RpcutilGetConfigItemOutput, RpcutilPing, RpcutilPingOutput,
};
pub use requests::{
    CancelOutcome, RpcutilCancel, RpcutilCancelAny, RpcutilCancelInput, RpcutilCancelOutput,
    RpcutilRunning, RpcutilRunningOutput, RunningRequestRow,
};

/// General information about a node and its daemon.
#[derive(Debug, JsonSchema)]
pub struct RpcutilAgent;

impl AgentContract for RpcutilAgent {
    const NAME: &'static str = "rpcutil";
    const TIMEOUT: u64 = 10;

    fn list_actions(list: &mut impl ActionList) {
        list.add::<RpcutilPing>()
            .add::<RpcutilInventory>()
            .add::<RpcutilGetFact>()
            .add::<RpcutilGetFacts>()
            .add::<RpcutilDaemonStats>()
            .add::<RpcutilAgentInventory>()
            .add::<RpcutilDdl>()
            .add::<RpcutilCollectiveInfo>()
            .add::<RpcutilGetConfigItem>()
            .add::<RpcutilGetData>()
            .add::<RpcutilRunning>()
            .add::<RpcutilCancel>()
            .add::<RpcutilCancelAny>()
            .add::<RpcutilDiagnose>();
    }
}

/// Report everything about the node.
#[derive(Debug, JsonSchema)]
pub struct RpcutilInventory;

impl Action for RpcutilInventory {
    type Agent = RpcutilAgent;
    const NAME: &'static str = "inventory";
    type Input = EmptyInput;
    type Output = RpcutilInventoryOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().examples(include_str!("rpcutil/inventory.json"))
    }
}

/// Outputs of `inventory`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RpcutilInventoryOutput {
    /// The names of the agents.
    pub agents: Vec<String>,
    /// The facts and their values.
    pub facts: Map<String, Value>,
    /// The classes that configuration management assigned to the node.
    pub classes: Vec<String>,
    /// The state of subsystems by name, as filters see it; null while it is unknown.
    pub state: Option<Map<String, Value>>,
    /// The version of the daemon.
    pub version: String,
    /// The node's main collective.
    pub main_collective: Option<String>,
    /// All collectives of the node.
    #[schemars(title = "All Collectives")]
    pub collectives: Vec<String>,
    /// The names of the data sources.
    pub data_plugins: Vec<String>,
    /// External agents that could not be loaded, with the file and the error.
    #[schemars(extend("x-default" = []))]
    pub agent_problems: Vec<AgentProblemRow>,
}

/// An error in the files of one agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentProblemRow {
    /// The agent.
    pub agent: String,
    /// The file.
    pub path: NodeText,
    /// The error as text.
    pub problem: NodeText,
}

/// List all agents of the node with their metadata.
#[derive(Debug, JsonSchema)]
pub struct RpcutilAgentInventory;

impl Action for RpcutilAgentInventory {
    type Agent = RpcutilAgent;
    const NAME: &'static str = "agent_inventory";
    type Input = EmptyInput;
    type Output = RpcutilAgentInventoryOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().examples(include_str!("rpcutil/agent_inventory.json"))
    }
}

/// Outputs of `agent_inventory`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RpcutilAgentInventoryOutput {
    /// The metadata of each agent.
    pub agents: Vec<AgentInventoryRow>,
    /// External agents that could not be loaded, with the file and the error.
    #[schemars(extend("x-default" = []))]
    pub problems: Vec<AgentProblemRow>,
}

/// One agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentInventoryRow {
    /// The same as `agent`: `MCollective` answers both.
    pub name: String,
    /// The name, as in subjects.
    pub agent: String,
    /// Its purpose.
    pub description: String,
    /// Its author.
    pub author: String,
    /// Its licence.
    pub license: String,
    /// Its own version.
    pub version: String,
    /// Its home page.
    pub url: String,
    /// The maximum duration of its actions, in seconds.
    pub timeout: u64,
    /// What implements it: `builtin`, or `external` for a separate program.
    pub provider: String,
}

/// List the collectives of the node.
#[derive(Debug, JsonSchema)]
pub struct RpcutilCollectiveInfo;

impl Action for RpcutilCollectiveInfo {
    type Agent = RpcutilAgent;
    const NAME: &'static str = "collective_info";
    type Input = EmptyInput;
    type Output = RpcutilCollectiveInfoOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read()
            .summary("collectives")
            .examples(include_str!("rpcutil/collective_info.json"))
    }
}

/// Outputs of `collective_info`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RpcutilCollectiveInfoOutput {
    /// The node's main collective.
    pub main_collective: Option<String>,
    /// All collectives of the node.
    #[schemars(title = "All Collectives")]
    pub collectives: Vec<String>,
}

/// Return the DDL of an agent on the node.
#[derive(Debug, JsonSchema)]
pub struct RpcutilDdl;

impl Action for RpcutilDdl {
    type Agent = RpcutilAgent;
    const NAME: &'static str = "ddl";
    type Input = RpcutilDdlInput;
    type Output = RpcutilDdlOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().summary("sha256").examples(include_str!("rpcutil/ddl.json"))
    }
}

/// Inputs of `ddl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RpcutilDdlInput {
    /// The name of an agent on the node.
    #[schemars(length(max = 64), regex(pattern = "^[a-z0-9_]+$"))]
    pub agent: String,
}

/// Outputs of `ddl`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RpcutilDdlOutput {
    /// The version of the agent.
    pub version: String,
    /// The SHA-256 of the DDL, in hexadecimal.
    #[schemars(title = "SHA-256")]
    pub sha256: String,
    /// The DDL, as JSON text.
    #[schemars(title = "DDL")]
    pub ddl: String,
}

/// Read one fact.
#[derive(Debug, JsonSchema)]
pub struct RpcutilGetFact;

impl Action for RpcutilGetFact {
    type Agent = RpcutilAgent;
    const NAME: &'static str = "get_fact";
    type Input = RpcutilGetFactInput;
    type Output = RpcutilGetFactOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().summary("value").examples(include_str!("rpcutil/get_fact.json"))
    }
}

/// Inputs of `get_fact`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RpcutilGetFactInput {
    /// The name of the fact; dots select values in structured facts.
    #[schemars(length(max = 128), regex(pattern = ".+"))]
    pub fact: String,
}

/// Outputs of `get_fact`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RpcutilGetFactOutput {
    /// The name of the fact.
    pub fact: String,
    /// The value of the fact; null if the node has no such fact.
    pub value: Value,
}

/// Read several facts.
#[derive(Debug, JsonSchema)]
pub struct RpcutilGetFacts;

impl Action for RpcutilGetFacts {
    type Agent = RpcutilAgent;
    const NAME: &'static str = "get_facts";
    type Input = RpcutilGetFactsInput;
    type Output = RpcutilGetFactsOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().examples(include_str!("rpcutil/get_facts.json"))
    }
}

/// Inputs of `get_facts`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RpcutilGetFactsInput {
    /// The names of the facts, separated by commas.
    #[schemars(length(max = 200), regex(pattern = r"^\s*[\w.-]+(\s*,\s*[\w.-]+)*\s*$"))]
    pub facts: String,
}

/// Outputs of `get_facts`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RpcutilGetFactsOutput {
    /// The facts and their values; null for facts that the node does not have.
    pub values: Map<String, Value>,
}

/// Query a data source.
#[derive(Debug, JsonSchema)]
pub struct RpcutilGetData;

impl Action for RpcutilGetData {
    type Agent = RpcutilAgent;
    const NAME: &'static str = "get_data";
    type Input = RpcutilGetDataInput;
    type Output = RpcutilGetDataOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().examples(include_str!("rpcutil/get_data.json"))
    }
}

/// Inputs of `get_data`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RpcutilGetDataInput {
    /// The name of the data source.
    #[schemars(title = "Data Source", length(max = 50), regex(pattern = r"^\w+$"))]
    pub source: String,
    /// The query, if the data source takes one.
    #[schemars(length(max = 200))]
    pub query: Option<String>,
}

/// Outputs of `get_data`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RpcutilGetDataOutput {
    /// The outputs of the data source.
    pub data: Map<String, Value>,
}
