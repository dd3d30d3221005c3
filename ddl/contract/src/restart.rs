//! The agent `restart`: restarts of services when no run is in progress.

use muster_ddl::{Action, ActionList, ActionProperties, AgentContract};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Restarts services when no run is in progress, and reports the outcome.
#[derive(Debug, JsonSchema)]
pub struct RestartAgent;

impl AgentContract for RestartAgent {
    const NAME: &'static str = "restart";
    const TIMEOUT: u64 = 60;

    fn list_actions(list: &mut impl ActionList) {
        list.add::<RestartRequest>().add::<RestartStatus>();
    }
}

/// Request a restart; requests for the same service share one restart until it begins.
#[derive(Debug, JsonSchema)]
pub struct RestartRequest;

impl Action for RestartRequest {
    type Agent = RestartAgent;
    const NAME: &'static str = "request";
    type Input = RestartRequestInput;
    type Output = RestartRequestOutput;

    fn properties() -> ActionProperties {
        ActionProperties::change()
            .timeout(3600)
            .streams()
            .summary("state")
            .examples(include_str!("restart/request.json"))
    }
}

/// Inputs of `request`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RestartRequestInput {
    /// The service to restart; `rpcd` is the daemon itself.
    #[schemars(title = "Service", length(max = 90), extend("x-validation" = "service_name"))]
    pub unit: String,
    /// Wait until neither Puppet nor this engine applies a catalog, and prevent new runs until the restart.
    #[schemars(title = "When idle", extend("x-default" = true))]
    pub when_idle: Option<bool>,
    /// Maximum time to wait for that, in seconds; then the outcome is `timeout`.
    #[schemars(extend("x-default" = 7200))]
    pub deadline: Option<u64>,
    /// At the deadline, restart anyway.
    #[schemars(extend("x-default" = false))]
    pub force: Option<bool>,
    /// Seconds until the daemon must be connected and ready after the restart.
    #[schemars(title = "Verify the bus")]
    pub verify_bus: Option<u64>,
    /// Reply when the outcome is known, and fail unless it is `ok`; not for `rpcd`.
    #[schemars(extend("x-default" = false))]
    pub wait: Option<bool>,
    /// Report whether the service exists and a restart is in progress, but request none.
    pub noop: Option<bool>,
}

/// Outputs of `request`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RestartRequestOutput {
    /// `requested`, `waiting`, `locked`, `restarting`, `verifying`, or the outcome: `ok`, `failed`, `timeout`; `planned` with `noop`.
    pub state: String,
    /// Description of the state.
    pub text: String,
    /// The id of the restart that includes this request.
    #[schemars(title = "Restart")]
    pub id: String,
    /// Whether the restart had already been requested.
    pub merged: bool,
    /// Whether this request caused the restart, or would cause it.
    pub changed: bool,
    /// Number of requests that share this restart.
    pub requests: u32,
    /// Process id of the new main process, when it is known.
    #[schemars(title = "Process")]
    pub pid: Option<u32>,
}

/// Report the state of a restart in progress, or the outcome of the last one.
#[derive(Debug, JsonSchema)]
pub struct RestartStatus;

impl Action for RestartStatus {
    type Agent = RestartAgent;
    const NAME: &'static str = "status";
    type Input = RestartStatusInput;
    type Output = RestartStatusOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().summary("state").examples(include_str!("restart/status.json"))
    }
}

/// Inputs of `status`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RestartStatusInput {
    /// The service.
    #[schemars(title = "Service", length(max = 90), extend("x-validation" = "service_name"))]
    pub unit: String,
}

/// Outputs of `status`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RestartStatusOutput {
    /// `none`, `requested`, `waiting`, `locked`, `restarting`, `verifying`, or the outcome: `ok`, `failed`, `timeout`.
    pub state: String,
    /// Description of the state.
    pub text: String,
    /// The id of the restart.
    #[schemars(title = "Restart")]
    pub id: Option<String>,
    /// Number of requests that share it.
    pub requests: u32,
    /// Time of the first request, in milliseconds since the epoch.
    pub requested: Option<u64>,
    /// Time of the outcome, in milliseconds since the epoch.
    pub ended: Option<u64>,
    /// Process id of the new main process, when it is known.
    #[schemars(title = "Process")]
    pub pid: Option<u32>,
}
