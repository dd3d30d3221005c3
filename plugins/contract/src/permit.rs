//! The agent `permit`: pools of run permits.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// Outputs of `list`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PermitListOutput {
    /// The pools; a reader skips those that it cannot read.
    #[serde(deserialize_with = "readable_entries")]
    pub pools: Vec<PermitPoolRow>,
    /// Number of holders in all pools.
    pub holders: usize,
    /// Number of waiting nodes in all pools.
    pub waiting: usize,
}

/// One pool, as reported by a node.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PermitPoolRow {
    /// The name of the pool.
    pub pool: String,
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
    pub node: String,
    /// The id of its run.
    #[serde(default)]
    pub run: String,
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
