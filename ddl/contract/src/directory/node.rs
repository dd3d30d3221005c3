//! One node: a row of a list, and everything that the directory knows.

use std::collections::BTreeMap;

use muster_ddl::{Action, ActionProperties};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{DirectoryAgent, DirectoryFreshness, TEXT_PATTERN};

/// One node in a list.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DirectoryNodeRow {
    /// The name.
    pub node: String,
    /// `present`, `missing`, or `unknown` for some minutes after the start of the instance.
    pub state: String,
    /// Seconds since the instance saw it; absent if it has not yet.
    pub seen: Option<u64>,
    /// When the instance saw it last, by its own clock, in milliseconds since the epoch.
    pub last_seen: Option<u64>,
    /// Version of the daemon.
    pub version: String,
    /// Collectives, the main one first.
    pub collectives: Vec<String>,
    /// Number of classes.
    pub classes: usize,
    /// The values of the requested fields; those that the node does not have are absent.
    pub fields: BTreeMap<String, Value>,
    /// Classes and all facts, if documents were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub document: Option<DirectoryNodeDocument>,
    /// Why the answer does not have what the node says now: its newest record is refused, or the values do not fit into an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// What queries see of one node besides its name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DirectoryNodeDocument {
    /// Classes, sorted; absent if the node does not know them.
    pub classes: Option<Vec<String>>,
    /// All facts.
    pub facts: Map<String, Value>,
}

/// Show everything that is known of one node.
#[derive(Debug, JsonSchema)]
pub struct DirectoryShow;

impl Action for DirectoryShow {
    type Agent = DirectoryAgent;
    const NAME: &'static str = "show";
    type Input = DirectoryShowInput;
    type Output = DirectoryShowOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().examples(include_str!("show.json"))
    }
}

/// Inputs of `show`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct DirectoryShowInput {
    /// The name of the node.
    #[schemars(length(max = 253), regex(pattern = TEXT_PATTERN))]
    pub node: String,
    /// Return the record as the node signed it, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<bool>,
}

/// Outputs of `show`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DirectoryShowOutput {
    /// The node, as in a list.
    pub node: DirectoryNodeRow,
    /// Classes; absent if the node does not know them.
    pub classes: Option<Vec<String>>,
    /// Versions of agents, by name.
    pub agents: BTreeMap<String, String>,
    /// All facts.
    pub facts: Map<String, Value>,
    /// State of subsystems.
    pub state: Map<String, Value>,
    /// Host keys of sshd.
    #[schemars(title = "SSH host keys")]
    pub ssh_host_keys: Vec<String>,
    /// When the node made its record, by its own clock, in milliseconds since the epoch.
    #[schemars(title = "Record time")]
    pub record_time: u64,
    /// Revision of the record in the bucket.
    pub revision: u64,
    /// The record as the node signed it.
    pub record: Option<String>,
    /// How current the answer is: whether the instance has read all records, is connected, and for how many seconds it has received heartbeats.
    pub freshness: DirectoryFreshness,
}

impl DirectoryShowOutput {
    /// The maps of the node's record by name, the facts first.
    pub fn maps(&self) -> [(&'static str, &Map<String, Value>); 2] {
        [("facts", &self.facts), ("state", &self.state)]
    }

    /// The maps of the node's record by name, to change them.
    pub fn maps_mut(&mut self) -> [(&'static str, &mut Map<String, Value>); 2] {
        [("facts", &mut self.facts), ("state", &mut self.state)]
    }
}

/// Leave out a missing node, until it runs again.
#[derive(Debug, JsonSchema)]
pub struct DirectoryForget;

impl Action for DirectoryForget {
    type Agent = DirectoryAgent;
    const NAME: &'static str = "forget";
    type Input = DirectoryForgetInput;
    type Output = DirectoryForgetOutput;

    fn properties() -> ActionProperties {
        ActionProperties::change().idempotent().examples(include_str!("forget.json"))
    }
}

/// Inputs of `forget`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct DirectoryForgetInput {
    /// The node.
    #[schemars(length(max = 253), regex(pattern = TEXT_PATTERN))]
    pub node: String,
}

/// Outputs of `forget`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DirectoryForgetOutput {
    /// The node.
    pub node: String,
    /// Revision of the record that is left out from now on.
    pub revision: u64,
}
