//! What a plugin may ask the daemon about the node that it runs on.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use muster_ddl::AgentDdl;
use muster_wire::Millis;
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::state::NodeFacts;
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use crate::data_source::ValidatedDataSource;
use crate::finding::HealthFinding;

/// The daemon, as a plugin sees it. Everything is a snapshot.
pub trait NodeHandle: fmt::Debug + Send + Sync {
    /// The node's name.
    fn identity(&self) -> &Identity;
    /// The collectives that it belongs to; the first is the main one.
    fn collectives(&self) -> &[SubjectName];
    /// Its facts.
    fn facts(&self) -> Arc<NodeFacts>;
    /// Its configuration management classes, lower case.
    fn classes(&self) -> Arc<[String]>;
    /// The agents that it offers.
    fn agent_infos(&self) -> Vec<AgentInfo>;
    /// The agents that it would offer, were their files in order.
    fn agent_problems(&self) -> Vec<AgentProblem> {
        Vec::new()
    }
    /// The DDL of an agent that it offers.
    fn agent_ddl(&self, agent: &str) -> Option<Arc<AgentDdl>>;
    /// The data sources that it offers.
    fn data_sources(&self) -> &[ValidatedDataSource];
    /// One value of its configuration, by dotted name.
    fn config_item(&self, name: &str) -> Option<Value>;
    /// The file that the configuration was read from.
    fn config_file(&self) -> &Path;
    /// The requests that are at work on the node or wait for their turn, the oldest first.
    fn running_requests(&self) -> Vec<RunningRequest>;
    /// Takes a request back; with `of`, only if it is that caller's own. Tells what was found, and whether it was taken back;
    /// `None` when no such request is at work.
    fn cancel_request(&self, id: Uuid, of: Option<&Identity>) -> Option<(RunningRequest, bool)>;
    /// What the daemon has counted.
    fn counter_snapshot(&self) -> CounterSnapshot;
    /// What each external agent is held to, in words, by its name.
    fn describe_sandboxes(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }
    /// What is wrong with the daemon and its surroundings now; looks at disks, so it may block for a moment.
    fn collect_findings(&self) -> Vec<HealthFinding>;
}

/// An agent's metadata.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AgentInfo {
    /// The name, as in subjects.
    pub agent: String,
    /// What it is for.
    pub description: String,
    /// Who wrote it.
    pub author: String,
    /// Under which licence.
    pub license: String,
    /// Its own version.
    pub version: String,
    /// Where it comes from.
    pub url: String,
    /// How long its actions may take, in seconds.
    pub timeout: u64,
    /// What does its work: `builtin`, or `external` for a program of its own.
    pub provider: String,
}

/// An agent of a node that cannot be used as its files are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AgentProblem {
    /// The agent, by the name of its DDL's file.
    pub agent: String,
    /// The DDL's file.
    pub path: String,
    /// What is wrong; a version that was offered before still is.
    pub problem: String,
}

/// A request that is at work, or waits for its turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningRequest {
    /// Its id.
    pub id: Uuid,
    /// Who asked.
    pub caller: Identity,
    /// The agent.
    pub agent: String,
    /// The action.
    pub action: String,
    /// When it was accepted, by the node's clock, in milliseconds since the epoch.
    pub since: Millis,
}

/// Counters since the daemon started.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CounterSnapshot {
    /// Messages that arrived.
    pub total: u64,
    /// Signature and token were good.
    pub validated: u64,
    /// Not decodable, or signature or token bad.
    pub unvalidated: u64,
    /// Meant for this node.
    pub passed: u64,
    /// Meant for others.
    pub filtered: u64,
    /// Too old, or from the future.
    pub ttlexpired: u64,
    /// Seen before.
    pub replayed: u64,
    /// Refused by policy.
    pub denied: u64,
    /// Replies sent.
    pub replies: u64,
    /// When the daemon started, in seconds since the epoch.
    pub starttime: u64,
}
