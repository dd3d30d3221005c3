//! The agent `permit`: pools of run permits.

use muster_base::NodeText;
use muster_ddl::{Action, ActionList, ActionProperties, AgentContract};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// The name of a pool.
const POOL_PATTERN: &str = "^[a-z][a-z0-9_-]*$";

/// Run permits, which limit how many nodes of the fleet do the same thing at a time.
#[derive(Debug, JsonSchema)]
pub struct PermitAgent;

impl AgentContract for PermitAgent {
    const NAME: &'static str = "permit";
    const TIMEOUT: u64 = 30;
    const DEFAULT_ACTION: Option<&'static str> = Some("list");

    fn list_actions(list: &mut impl ActionList) {
        list.add::<PermitList>().add::<PermitRelease>();
    }
}

/// Show which nodes hold permits of each pool and which wait; every node shows the same.
#[derive(Debug, JsonSchema)]
pub struct PermitList;

impl Action for PermitList {
    type Agent = PermitAgent;
    const NAME: &'static str = "list";
    type Input = PermitListInput;
    type Output = PermitListOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().examples(include_str!("permit/list.json"))
    }
}

/// Inputs of `list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PermitListInput {
    /// Only this pool.
    #[schemars(length(max = 64), regex(pattern = POOL_PATTERN))]
    pub pool: Option<String>,
}

/// Outputs of `list`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PermitListOutput {
    /// Each pool with holders and waiting nodes: node, run, fence, priority, limit, age, and seconds until expiry.
    #[serde(deserialize_with = "readable_entries")]
    pub pools: Vec<PermitPoolRow>,
    /// Number of permits in use.
    #[schemars(title = "Held")]
    pub holders: usize,
    /// Number of waiting nodes.
    pub waiting: usize,
}

/// Revoke the permit that this node holds; the run that uses it is stopped.
#[derive(Debug, JsonSchema)]
pub struct PermitRelease;

impl Action for PermitRelease {
    type Agent = PermitAgent;
    const NAME: &'static str = "release";
    type Input = PermitReleaseInput;
    type Output = PermitReleaseOutput;

    fn properties() -> ActionProperties {
        ActionProperties::change().change_summary().examples(include_str!("permit/release.json"))
    }
}

/// Inputs of `release`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PermitReleaseInput {
    /// The pool.
    #[schemars(length(max = 64), regex(pattern = POOL_PATTERN))]
    pub pool: String,
    /// Only if this run holds the permit.
    #[schemars(length(max = 36), regex(pattern = "^[0-9a-f-]{36}$"))]
    pub run: Option<String>,
    /// Report what would change, but change nothing.
    pub noop: Option<bool>,
}

/// Outputs of `release`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PermitReleaseOutput {
    /// Number of revoked permits.
    pub released: usize,
    /// Whether a permit was revoked.
    pub changed: bool,
}

/// One pool, as reported by a node.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PermitPoolRow {
    /// The name of the pool.
    pub pool: NodeText,
    /// The holders of permits.
    #[serde(default)]
    pub holders: Vec<PoolMemberRow>,
    /// The waiting nodes.
    #[serde(default)]
    pub waiting: Vec<PoolMemberRow>,
}

/// A node that has a permit, or waits for one.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PoolMemberRow {
    /// The node.
    pub node: NodeText,
    /// The id of its run.
    #[serde(default)]
    pub run: NodeText,
    /// The number of the permit; of a waiting node its position by time of arrival.
    #[serde(default)]
    pub fence: u64,
    /// The priority of the run.
    #[serde(default)]
    pub priority: i64,
    /// The limit of the pool, as its request specified it; 0 for a run without a limit of its own.
    #[serde(default)]
    pub limit: u64,
    /// Seconds since its arrival.
    #[serde(default)]
    pub age: u64,
    /// Seconds until its entry expires, unless it is renewed.
    #[serde(default)]
    pub expires: u64,
    /// Whether Muster did not start the run.
    #[serde(default)]
    pub occupied: bool,
}

/// The entries of a list that can be read.
fn readable_entries<'de, D: Deserializer<'de>>(list: D) -> Result<Vec<PermitPoolRow>, D::Error> {
    let entries = Vec::<Value>::deserialize(list)?.into_iter();
    Ok(entries.filter_map(|entry| PermitPoolRow::deserialize(entry).ok()).collect())
}
