//! The agent `service`: the services of the machine.

use muster_ddl::{Action, ActionList, ActionProperties, AgentContract};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Starts, stops and restarts services, and reports whether they run.
#[derive(Debug, JsonSchema)]
pub struct ServiceAgent;

impl AgentContract for ServiceAgent {
    const NAME: &'static str = "service";
    const TIMEOUT: u64 = 60;

    fn list_actions(list: &mut impl ActionList) {
        list.add::<ServiceStatus>()
            .add::<ServiceStart>()
            .add::<ServiceStop>()
            .add::<ServiceRestart>();
    }
}

/// What the actions that change it have in common.
fn describe_change(properties: ActionProperties) -> ActionProperties {
    properties.idempotent().display_failed().summary("status").change_summary()
}

/// Report whether a service runs.
#[derive(Debug, JsonSchema)]
pub struct ServiceStatus;

impl Action for ServiceStatus {
    type Agent = ServiceAgent;
    const NAME: &'static str = "status";
    type Input = ServiceNameInput;
    type Output = ServiceStatusOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().summary("status").examples(include_str!("service/status.json"))
    }
}

/// Inputs of `status`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceNameInput {
    /// The service to examine.
    #[schemars(title = "Service Name", length(max = 90), extend("x-validation" = "service_name"))]
    pub service: String,
}

/// Outputs of `status`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceStatusOutput {
    /// Whether the service runs: `running` or `stopped`.
    #[schemars(title = "Service Status")]
    pub status: ServiceRunState,
}

/// Start a service, unless it is running.
#[derive(Debug, JsonSchema)]
pub struct ServiceStart;

impl Action for ServiceStart {
    type Agent = ServiceAgent;
    const NAME: &'static str = "start";
    type Input = ServiceChangeInput;
    type Output = ServiceChangeOutput;

    fn properties() -> ActionProperties {
        describe_change(ActionProperties::change()).examples(include_str!("service/start.json"))
    }
}

/// Stop a service, unless it is stopped.
#[derive(Debug, JsonSchema)]
pub struct ServiceStop;

impl Action for ServiceStop {
    type Agent = ServiceAgent;
    const NAME: &'static str = "stop";
    type Input = ServiceChangeInput;
    type Output = ServiceChangeOutput;

    fn properties() -> ActionProperties {
        describe_change(ActionProperties::change())
            .describe_input("service", "The service to stop")
            .examples(include_str!("service/stop.json"))
    }
}

/// Stop and start a service; a stopped service is started.
#[derive(Debug, JsonSchema)]
pub struct ServiceRestart;

impl Action for ServiceRestart {
    type Agent = ServiceAgent;
    const NAME: &'static str = "restart";
    type Input = ServiceChangeInput;
    type Output = ServiceChangeOutput;

    fn properties() -> ActionProperties {
        ActionProperties::change()
            .display_failed()
            .summary("status")
            .change_summary()
            .describe_input("service", "The service to restart")
            .describe_output("changed", "Whether the service was restarted")
            .examples(include_str!("service/restart.json"))
    }
}

/// Inputs of the actions that change a service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceChangeInput {
    /// The service to start.
    #[schemars(title = "Service Name", length(max = 90), extend("x-validation" = "service_name"))]
    pub service: String,
    /// Report what would change, but change nothing.
    pub noop: Option<bool>,
}

/// The state after a change; with `noop`, the current state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceChangeOutput {
    /// Whether the service runs afterwards: `running` or `stopped`.
    #[schemars(title = "Service Status")]
    pub status: ServiceRunState,
    /// Whether its state changed.
    ///
    /// With `noop`, whether it would change.
    pub changed: bool,
}

/// Whether a service runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ServiceRunState {
    /// It runs.
    Running,
    /// It does not run.
    Stopped,
}
