//! The requests that run or wait on a node.

use muster_ddl::aggregate::AggregateFunction;
use muster_ddl::{Action, ActionProperties, EmptyInput};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::RpcutilAgent;

/// List the requests that are running or waiting on the node.
#[derive(Debug, JsonSchema)]
pub struct RpcutilRunning;

impl Action for RpcutilRunning {
    type Agent = RpcutilAgent;
    const NAME: &'static str = "running";
    type Input = EmptyInput;
    type Output = RpcutilRunningOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read()
            .aggregate(AggregateFunction::Sum, "count", &[])
            .examples(include_str!("running.json"))
    }
}

/// Outputs of `running`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RpcutilRunningOutput {
    /// Number of requests, without this one.
    #[schemars(title = "Running")]
    #[serde(default)]
    pub count: usize,
    /// Each with id, caller, agent, action, and start time in milliseconds since the epoch.
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

/// Cancel one of the caller's own requests: a running action is asked to stop, a waiting one is not started.
#[derive(Debug, JsonSchema)]
pub struct RpcutilCancel;

impl Action for RpcutilCancel {
    type Agent = RpcutilAgent;
    const NAME: &'static str = "cancel";
    type Input = RpcutilCancelInput;
    type Output = RpcutilCancelOutput;

    fn properties() -> ActionProperties {
        ActionProperties::change()
            .idempotent()
            .summary("outcome")
            .examples(include_str!("cancel.json"))
    }
}

/// Cancel a request of any caller.
#[derive(Debug, JsonSchema)]
pub struct RpcutilCancelAny;

impl Action for RpcutilCancelAny {
    type Agent = RpcutilAgent;
    const NAME: &'static str = "cancel_any";
    type Input = RpcutilCancelInput;
    type Output = RpcutilCancelOutput;

    fn properties() -> ActionProperties {
        ActionProperties::change()
            .idempotent()
            .summary("outcome")
            .examples(include_str!("cancel_any.json"))
    }
}

/// Inputs of `cancel`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RpcutilCancelInput {
    /// The request's id.
    #[schemars(title = "Request", length(max = 36), regex(pattern = "^[0-9a-fA-F-]+$"))]
    pub id: String,
    /// Cancel only work that has not begun: that waits for a permit, a lock or other calls.
    #[schemars(title = "Waiting only")]
    pub waiting_only: Option<bool>,
}

/// Outputs of `cancel` and `cancel_any`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RpcutilCancelOutput {
    /// cancelled; withdrawn with waiting_only; not_running if the node has no such request.
    #[expect(clippy::doc_markdown, reason = "callers see this text without markup")]
    #[schemars(with = "String")]
    pub outcome: CancelOutcome,
    /// The caller of the request.
    #[schemars(extend("x-type" = "any"))]
    pub caller: Option<String>,
    /// The agent of the request.
    #[schemars(extend("x-type" = "any"))]
    pub agent: Option<String>,
    /// The action of the request.
    #[schemars(extend("x-type" = "any"))]
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
