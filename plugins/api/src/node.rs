//! What a plugin can query from the daemon about its node.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use muster_ddl::AgentDdl;
use muster_filter::NodeFilter;
use muster_filter::state::NodeFacts;
use muster_wire::Millis;
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::token::UserRole;
use serde::Serialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::context::{CallContext, WorkEnd};
use crate::data_source::ValidatedDataSource;
use crate::finding::HealthFinding;
use crate::history::HistoryRecorder;

/// The daemon's interface for plugins. Every value is a snapshot.
pub trait NodeHandle: fmt::Debug + Send + Sync {
    /// The node's name.
    fn identity(&self) -> &Identity;
    /// The collectives of the node; the first is the main one.
    fn collectives(&self) -> &[SubjectName];
    /// Its facts.
    fn facts(&self) -> Arc<NodeFacts>;
    /// The state of its subsystems, by name, as filters see it; `None` while it is unknown.
    fn state(&self) -> Option<Arc<NodeFacts>> {
        None
    }
    /// Its configuration management classes, lower case.
    fn classes(&self) -> Arc<[String]>;
    /// Whether a filter matches the node. Data sources are unknown.
    fn is_matched_by(&self, filter: &NodeFilter) -> bool;
    /// The DDLs of the agents that it offers.
    fn agent_ddls(&self) -> Vec<Arc<AgentDdl>>;
    /// The agents that are not offered because their files are invalid.
    fn agent_problems(&self) -> Vec<AgentProblem> {
        Vec::new()
    }
    /// The DDL of an agent that it offers.
    fn agent_ddl(&self, agent: &str) -> Option<Arc<AgentDdl>> {
        self.agent_ddls().into_iter().find(|ddl| ddl.name() == agent)
    }
    /// The data sources that it offers.
    fn data_sources(&self) -> &[ValidatedDataSource];
    /// One configuration value, by dotted name.
    fn config_item(&self, name: &str) -> Option<Value>;
    /// The file that the configuration was read from.
    fn config_file(&self) -> &Path;
    /// The requests that run or wait on the node, oldest first.
    fn running_requests(&self) -> Vec<RunningRequest>;
    /// Cancels a request; with `of`, only if it belongs to that user. Returns the request and whether it was cancelled, or `None` if no such
    /// request is running or waiting. Users choose the ids of their requests, so several users can have one with the same id.
    fn cancel_request(
        &self,
        id: Uuid,
        of: Option<&RequestOwner>,
        scope: CancelScope,
    ) -> Option<(RunningRequest, bool)>;
    /// The daemon's counters.
    fn counter_snapshot(&self) -> CounterSnapshot;
    /// Who may run an action on the node, by its policies; `None` if the node does not disclose them.
    fn decide_callers(
        &self,
        _agent: &SubjectName,
        _action: &SubjectName,
    ) -> Option<Vec<CallerVerdict>> {
        None
    }
    /// Descriptions of the sandbox of each external agent, by agent name.
    fn describe_sandboxes(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }
    /// Cancelled when the daemon begins to stop or restart. Work that outlives the daemon can then be handed over; other actions go on.
    fn leaving(&self) -> CancellationToken {
        CancellationToken::new()
    }
    /// Leaves the reply to a running request to the next daemon, because its work outlives this one. The action's own outcome is then not sent.
    fn hand_over(&self, _call: &CallContext) {}
    /// Records in the audit log that work of a request ended, after the request was answered.
    fn record_work_end(&self, _call: &CallContext, _end: &WorkEnd) {}
    /// Records in the fleet's history what happens on the node. Does nothing in a fleet without one.
    fn history(&self) -> HistoryRecorder {
        HistoryRecorder::default()
    }
    /// Current problems of the daemon and its environment. Inspects disks, so it may block briefly.
    fn collect_findings(&self) -> Vec<HealthFinding>;
}

/// An agent that cannot be used because its files are invalid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AgentProblem {
    /// The agent's name, from the file name of its DDL.
    pub agent: String,
    /// The DDL's file.
    pub path: String,
    /// What is wrong. A version that was offered before stays in use.
    pub problem: String,
}

/// What the node's policies decide about a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallerVerdict {
    /// The caller, `service=NAME`, an expression as written, or `*` and `service=*` for all that are not named.
    pub caller: String,
    /// Whether the action is allowed.
    pub allowed: bool,
    /// File and line of the deciding rule, or the default.
    pub rule: String,
    /// The required approvers, as written.
    pub approved_by: Option<String>,
}

/// What the cancellation of a request ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CancelScope {
    /// All work.
    #[default]
    All,
    /// Only work that has not begun: that waits for a permit, a lock or other calls.
    Waiting,
}

/// The user to whom a request belongs: one user may have several keys, and a caller and a service may have the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestOwner {
    /// The name.
    pub name: Identity,
    /// The role.
    pub role: UserRole,
}

/// A request that runs or waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningRequest {
    /// Its id.
    pub id: Uuid,
    /// The user who sent it; of a scheduled turn, the schedule's author.
    pub owner: RequestOwner,
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
    /// Messages received.
    pub total: u64,
    /// Messages with a valid signature and token.
    pub validated: u64,
    /// Messages that cannot be decoded, or have an invalid signature or token.
    pub unvalidated: u64,
    /// Messages addressed to this node.
    pub passed: u64,
    /// Messages addressed to other nodes.
    pub filtered: u64,
    /// Messages that are too old, or dated in the future.
    pub ttlexpired: u64,
    /// Messages received before.
    pub replayed: u64,
    /// Requests denied by policy.
    pub denied: u64,
    /// Replies sent.
    pub replies: u64,
    /// When the daemon started, in seconds since the epoch.
    pub starttime: u64,
}
