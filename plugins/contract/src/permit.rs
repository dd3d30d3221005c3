//! The agent `permit`: pools of run permits.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// Outputs of `list`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

/// One pool, as a node tells it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

/// Somebody who holds a permit, or waits for one.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PoolMemberRow {
    /// The node.
    pub node: String,
    /// The run that it is for.
    #[serde(default)]
    pub run: String,
    /// Of a holder the permit's number; of one who waits its place in the order of coming.
    #[serde(default)]
    pub fence: u64,
    /// The priority of the run.
    #[serde(default)]
    pub priority: i64,
    /// How many it was told may hold the pool; 0 for a run that somebody else began.
    #[serde(default)]
    pub limit: u64,
    /// Seconds since it came.
    #[serde(default)]
    pub age: u64,
    /// Seconds until it lapses, if nothing is heard of it.
    #[serde(default)]
    pub expires: u64,
    /// Whether somebody else began what runs.
    #[serde(default)]
    pub occupied: bool,
}

/// The entries of a list that can be read.
fn readable_entries<'de, D: Deserializer<'de>>(list: D) -> Result<Vec<PermitPoolRow>, D::Error> {
    let entries = Vec::<Value>::deserialize(list)?.into_iter();
    Ok(entries
        .filter_map(|entry| PermitPoolRow::deserialize(entry).ok())
        .collect())
}
