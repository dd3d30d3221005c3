//! The agent `config`: files that are deployed to a node's daemon, and confirmed by a second request.

use std::collections::{BTreeMap, BTreeSet};

use muster_base::NodeText;
use muster_ddl::{Action, ActionList, ActionProperties, AgentContract, EmptyInput};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod deployed_name;

pub use deployed_name::{DeployedKind, DeployedName, DeployedNameError};

/// Maximum number of files of a deployment.
pub const MAX_DEPLOYED_FILES: usize = 500;
/// Maximum size of all files of a deployment together, in bytes: as JSON they fit into a request.
pub const MAX_DEPLOYED_BYTES: usize = 512 * 1024;

/// The name of a deployment.
const DEPLOYMENT_PATTERN: &str = r"\A[0-9a-zA-Z-]+\z";
/// The name of a program.
const PROGRAM_PATTERN: &str = r"\A[0-9a-zA-Z][0-9a-zA-Z._+~-]*\z";
/// The name of an agent or of an action.
const NAME_PATTERN: &str = r"\A[a-zA-Z0-9_-]+\z";

/// Deploys policies, facts, checks, settings and programs to the node's daemon, for `rpc config` and `rpc upgrade`.
#[derive(Debug, JsonSchema)]
pub struct ConfigAgent;

impl AgentContract for ConfigAgent {
    const NAME: &'static str = "config";
    const TIMEOUT: u64 = 60;

    fn list_actions(list: &mut impl ActionList) {
        list.add::<ConfigDeploy>()
            .add::<ConfigUpgrade>()
            .add::<ConfigConfirm>()
            .add::<ConfigRevert>()
            .add::<ConfigStatus>()
            .add::<ConfigWho>();
    }
}

/// Replace the daemon's own files, check the result, and restore the earlier files unless the deployment is confirmed in time.
#[derive(Debug, JsonSchema)]
pub struct ConfigDeploy;

impl Action for ConfigDeploy {
    type Agent = ConfigAgent;
    const NAME: &'static str = "deploy";
    type Input = ConfigDeployInput;
    type Output = ConfigDeployOutput;

    fn properties() -> ActionProperties {
        ActionProperties::root_equivalent()
            .idempotent()
            .summary("state")
            .examples(include_str!("config/deploy.json"))
    }
}

/// Inputs of `deploy`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ConfigDeployInput {
    /// Name of the deployment, chosen by the caller.
    #[schemars(length(max = 64), regex(pattern = DEPLOYMENT_PATTERN))]
    pub deployment: String,
    /// Texts of the files by name: policies/AGENT.policy, policies/groups, facts.d/NAME, checks.d/NAME.toml, conf.d/NAME.toml, ca.pem; files of the deployment before that are missing here are removed.
    pub files: BTreeMap<String, String>,
    /// Names of the files that are programs.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub executables: BTreeSet<String>,
    /// Time in seconds until the node restores the earlier files if the deployment is not confirmed, from 10 to 3600.
    #[schemars(extend("x-default" = 60))]
    pub confirm_seconds: u64,
    /// Only report what would change.
    #[schemars(title = "Noop", extend("x-default" = false))]
    pub noop: bool,
}

/// Run another program of the daemon, which the organisation has approved, and return to the earlier one unless the upgrade is confirmed in time.
#[derive(Debug, JsonSchema)]
pub struct ConfigUpgrade;

impl Action for ConfigUpgrade {
    type Agent = ConfigAgent;
    const NAME: &'static str = "upgrade";
    type Input = ConfigUpgradeInput;
    type Output = ConfigDeployOutput;

    fn properties() -> ActionProperties {
        ActionProperties::root_equivalent()
            .idempotent()
            .timeout(300)
            .summary("state")
            .examples(include_str!("config/upgrade.json"))
    }
}

/// Inputs of `upgrade`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ConfigUpgradeInput {
    /// Name of the deployment, chosen by the caller.
    #[schemars(length(max = 64), regex(pattern = DEPLOYMENT_PATTERN))]
    pub deployment: String,
    /// Name of the program, as `rpc org program list` shows it.
    #[schemars(length(max = 64), regex(pattern = PROGRAM_PATTERN))]
    pub program: String,
    /// Time in seconds until the node returns to the earlier program if the upgrade is not confirmed, from 10 to 3600.
    #[schemars(extend("x-default" = 60))]
    pub confirm_seconds: u64,
    /// Only fetch and check the program.
    #[schemars(title = "Noop", extend("x-default" = false))]
    pub noop: bool,
}

/// Restore the files or the program from before the last deployment, as a deployment of its own that must be confirmed.
#[derive(Debug, JsonSchema)]
pub struct ConfigRevert;

impl Action for ConfigRevert {
    type Agent = ConfigAgent;
    const NAME: &'static str = "revert";
    type Input = ConfigRevertInput;
    type Output = ConfigDeployOutput;

    fn properties() -> ActionProperties {
        ActionProperties::root_equivalent()
            .idempotent()
            .summary("state")
            .examples(include_str!("config/revert.json"))
    }
}

/// Inputs of `revert`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ConfigRevertInput {
    /// Name of the deployment, chosen by the caller.
    #[schemars(length(max = 64), regex(pattern = DEPLOYMENT_PATTERN))]
    pub deployment: String,
    /// Time in seconds until the node restores the earlier files if the deployment is not confirmed, from 10 to 3600.
    #[schemars(extend("x-default" = 60))]
    pub confirm_seconds: u64,
}

/// Outputs of `deploy`, `upgrade` and `revert`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ConfigDeployOutput {
    /// Name of the deployment.
    pub deployment: String,
    /// unchanged; planned with noop; pending until it is confirmed.
    pub state: String,
    /// What changed or would change: the name of the file, and its change (added, changed or removed); or rpcd, and the names of both programs.
    pub changes: Vec<DeployedChange>,
    /// How the daemon puts the files in force: reload, restart, or nothing.
    pub effect: String,
    /// When the node restores the earlier files, by its clock, in milliseconds since the epoch; 0 unless it waits for a confirmation.
    pub confirm_by: u64,
}

/// A file that a deployment changes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeployedChange {
    /// Its name.
    pub name: NodeText,
    /// `added`, `changed` or `removed`; of the daemon's program, its names before and after.
    pub change: NodeText,
}

/// The states of a deployment.
pub mod deploy_state {
    /// The node has no deployment.
    pub const NONE: &str = "none";
    /// All files were like this before.
    pub const UNCHANGED: &str = "unchanged";
    /// The files would change; only this was asked.
    pub const PLANNED: &str = "planned";
    /// The files were replaced, and the node waits for the confirmation.
    pub const PENDING: &str = "pending";
    /// The deployment was confirmed.
    pub const CONFIRMED: &str = "confirmed";
    /// The earlier files were restored.
    pub const REVERTED: &str = "reverted";
}

/// Keep the files of a deployment. Refused until the daemon runs with them.
#[derive(Debug, JsonSchema)]
pub struct ConfigConfirm;

impl Action for ConfigConfirm {
    type Agent = ConfigAgent;
    const NAME: &'static str = "confirm";
    type Input = ConfigConfirmInput;
    type Output = ConfigConfirmOutput;

    fn properties() -> ActionProperties {
        ActionProperties::change()
            .idempotent()
            .summary("state")
            .examples(include_str!("config/confirm.json"))
    }
}

/// Inputs of `confirm`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ConfigConfirmInput {
    /// Name of the deployment, chosen by the caller.
    #[schemars(length(max = 64), regex(pattern = DEPLOYMENT_PATTERN))]
    pub deployment: String,
}

/// Outputs of `confirm`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ConfigConfirmOutput {
    /// Name of the deployment.
    pub deployment: String,
    /// confirmed.
    pub state: String,
}

/// Show the last deployment, and which of its files were changed by others.
#[derive(Debug, JsonSchema)]
pub struct ConfigStatus;

impl Action for ConfigStatus {
    type Agent = ConfigAgent;
    const NAME: &'static str = "status";
    type Input = EmptyInput;
    type Output = ConfigStatusOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().summary("state").examples(include_str!("config/status.json"))
    }
}

/// Outputs of `status`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ConfigStatusOutput {
    /// Name of the last deployment; empty if there was none.
    pub deployment: String,
    /// none, pending, confirmed or reverted.
    pub state: NodeText,
    /// Who deployed it.
    pub caller: NodeText,
    /// When, by the node's clock, in milliseconds since the epoch.
    pub deployed_at: u64,
    /// When the node restores the earlier files, by its clock, in milliseconds since the epoch; 0 unless it waits for a confirmation.
    pub confirm_by: u64,
    /// Why the earlier files were restored; empty if they were not.
    pub reason: NodeText,
    /// The files of the deployment that is in force.
    pub files: Vec<String>,
    /// Those of them that were changed or removed by others since.
    pub modified: Vec<NodeText>,
    /// The program that runs, by the name of its upgrade; empty for the installed one.
    pub program: NodeText,
}

/// Show which callers may run an action on this node, by its policies, facts and classes.
#[derive(Debug, JsonSchema)]
pub struct ConfigWho;

impl Action for ConfigWho {
    type Agent = ConfigAgent;
    const NAME: &'static str = "who";
    type Input = ConfigWhoInput;
    type Output = ConfigWhoOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().examples(include_str!("config/who.json"))
    }
}

/// Inputs of `who`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ConfigWhoInput {
    /// The agent.
    #[schemars(length(max = 128), regex(pattern = NAME_PATTERN))]
    pub agent: String,
    /// The action.
    #[schemars(length(max = 128), regex(pattern = NAME_PATTERN))]
    pub action: String,
}

/// Outputs of `who`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ConfigWhoOutput {
    /// The callers that the policy names, its expressions, and all others: caller, allowed, rule, approved_by. Inputs and data sources count as unknown.
    #[expect(clippy::doc_markdown, reason = "callers see this text without markup")]
    pub callers: Vec<ConfigCallerRow>,
}

/// What a node's policy decides about a caller.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ConfigCallerRow {
    /// The caller, `service=NAME`, an expression as written, or `*` and `service=*` for all that are not named.
    pub caller: NodeText,
    /// Whether the action is allowed.
    pub allowed: bool,
    /// File and line of the deciding rule, or the default.
    pub rule: NodeText,
    /// The required approvers, as written in the rule; empty if none are required.
    pub approved_by: NodeText,
}
