//! The switch that disables runs, and the locks of runs: `enable`, `disable` and `locks`.

use muster_ddl::aggregate::AggregateFunction;
use muster_ddl::{Action, ActionProperties, EmptyInput};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PuppetAgent;

/// Enable Puppet's runs.
#[derive(Debug, JsonSchema)]
pub struct PuppetEnable;

impl Action for PuppetEnable {
    type Agent = PuppetAgent;
    const NAME: &'static str = "enable";
    type Input = PuppetEnableInput;
    type Output = PuppetEnableOutput;

    fn properties() -> ActionProperties {
        ActionProperties::change()
            .idempotent()
            .aggregate(AggregateFunction::BooleanSummary, "enabled", &[])
            .change_summary()
            .examples(include_str!("enable.json"))
    }
}

/// Inputs of `enable`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PuppetEnableInput {
    /// Report what would change, but change nothing.
    pub noop: Option<bool>,
}

/// Outputs of `enable`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PuppetEnableOutput {
    /// What was done.
    pub status: String,
    /// Whether runs are allowed now.
    pub enabled: bool,
    /// Whether runs were disabled before.
    pub changed: bool,
}

/// Disable Puppet's runs, with a message; the message of an earlier call is kept.
#[derive(Debug, JsonSchema)]
pub struct PuppetDisable;

impl Action for PuppetDisable {
    type Agent = PuppetAgent;
    const NAME: &'static str = "disable";
    type Input = PuppetDisableInput;
    type Output = PuppetDisableOutput;

    fn properties() -> ActionProperties {
        ActionProperties::change()
            .idempotent()
            .aggregate(AggregateFunction::BooleanSummary, "enabled", &[])
            .change_summary()
            .examples(include_str!("disable.json"))
    }
}

/// Inputs of `disable`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PuppetDisableInput {
    /// The reason.
    #[schemars(length(max = 500), regex(pattern = r"^[^\x00-\x1f\x7f]+$"))]
    pub message: Option<String>,
    /// Report what would change, but change nothing.
    pub noop: Option<bool>,
}

/// Outputs of `disable`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PuppetDisableOutput {
    /// What was done, and the message in effect.
    pub status: String,
    /// Whether runs are allowed now.
    pub enabled: bool,
    /// The reason why runs are disabled.
    #[schemars(title = "Lock Message")]
    pub disable_message: String,
    /// Whether runs were enabled before.
    pub changed: bool,
}

/// List Puppet's locks and their holders.
#[derive(Debug, JsonSchema)]
pub struct PuppetLocks;

impl Action for PuppetLocks {
    type Agent = PuppetAgent;
    const NAME: &'static str = "locks";
    type Input = EmptyInput;
    type Output = PuppetLocksOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().examples(include_str!("locks.json"))
    }
}

/// Outputs of `locks`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PuppetLocksOutput {
    /// Number of held locks.
    pub held: usize,
    /// Each with its name (`run` for this agent's run lock, `puppet`, `disabled`, `ssl`), path, state (`held`, `stale`, `free`), process, holder and message.
    pub locks: Vec<PuppetLockRow>,
}

/// A lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PuppetLockRow {
    /// `run`, `puppet`, `disabled` or `ssl`.
    pub name: String,
    /// The file.
    pub path: String,
    /// `held`, `stale` or `free`.
    pub state: String,
    /// The process id of the holder.
    pub pid: Option<u32>,
    /// The program of the holder.
    pub holder: Option<String>,
    /// What is known of the holder.
    pub message: Option<String>,
}
