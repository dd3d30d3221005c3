//! The agent `provision`: steps on a node that is being provisioned.

mod delivery;
mod puppet;

use muster_ddl::{Action, ActionList, ActionProperties, AgentContract, EmptyInput};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use delivery::{
    NodeSettings, ProvisionConfigure, ProvisionConfigureInput, ProvisionConfigureOutput,
    ProvisionSetPuppetHost, SetPuppetHostInput, SetPuppetHostOutput,
};
pub use puppet::{
    CertificateRequestState, DaemonizePuppetInput, DaemonizePuppetOutput, HasCertOutput,
    ProvisionBootstrapPuppet, ProvisionDaemonizePuppet, ProvisionHasCert,
    ProvisionRequestCertificate, ProvisionRunPuppet, RequestCertificateInput,
    RequestCertificateOutput, RunPuppetInput, RunPuppetOutput,
};

/// A name of a host.
const HOST_PATTERN: &str = "^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$";

/// Provisions a new machine step by step, until Puppet manages it.
#[derive(Debug, JsonSchema)]
pub struct ProvisionAgent;

impl AgentContract for ProvisionAgent {
    const NAME: &'static str = "provision";
    const TIMEOUT: u64 = 360;

    fn list_actions(list: &mut impl ActionList) {
        list.add::<ProvisionLock>()
            .add::<ProvisionUnlock>()
            .add::<ProvisionIsLocked>()
            .add::<ProvisionDisable>()
            .add::<ProvisionIsDisabled>()
            .add::<ProvisionRelease>()
            .add::<ProvisionReprovision>()
            .add::<ProvisionConfigure>()
            .add::<ProvisionSetPuppetHost>()
            .add::<ProvisionHasCert>()
            .add::<ProvisionRequestCertificate>()
            .add::<ProvisionBootstrapPuppet>()
            .add::<ProvisionRunPuppet>()
            .add::<ProvisionDaemonizePuppet>();
    }
}

/// Lock the node for one provisioner for a limited time; the owner can renew the lock.
#[derive(Debug, JsonSchema)]
pub struct ProvisionLock;

impl Action for ProvisionLock {
    type Agent = ProvisionAgent;
    const NAME: &'static str = "lock";
    type Input = ProvisionLockInput;
    type Output = ProvisionLockOutput;

    fn properties() -> ActionProperties {
        ActionProperties::root_equivalent()
            .idempotent()
            .timeout(60)
            .summary("locked")
            .examples(include_str!("provision/lock.json"))
    }
}

/// Inputs of `lock`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ProvisionLockInput {
    /// The name of the lock's owner.
    #[schemars(length(max = 200), regex(pattern = "^[A-Za-z0-9_.@:/-]+$"))]
    pub owner: String,
    /// Duration of the lock in seconds, 5 to 3600; after that, another provisioner can take it.
    #[schemars(extend("x-default" = 120))]
    pub lease: u64,
    /// The fence number of the lock, higher than all earlier ones; default: the next number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
}

/// Report whether a provisioner has locked the node.
#[derive(Debug, JsonSchema)]
pub struct ProvisionIsLocked;

impl Action for ProvisionIsLocked {
    type Agent = ProvisionAgent;
    const NAME: &'static str = "is_locked";
    type Input = EmptyInput;
    type Output = ProvisionLockOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read()
            .timeout(60)
            .summary("locked")
            .examples(include_str!("provision/is_locked.json"))
    }
}

/// Outputs of `lock` and `is_locked`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProvisionLockOutput {
    /// Whether the node is locked now.
    pub locked: bool,
    /// The current or last owner; empty if there was none.
    pub owner: String,
    /// The highest fence number of all locks of this node; 0 before the first.
    pub fence: u64,
    /// Expiry of the lock, in seconds since the epoch; 0 without a lock.
    pub expires: u64,
}

/// Release the lock; succeeds if there is none.
#[derive(Debug, JsonSchema)]
pub struct ProvisionUnlock;

impl Action for ProvisionUnlock {
    type Agent = ProvisionAgent;
    const NAME: &'static str = "unlock";
    type Input = ProvisionUnlockInput;
    type Output = ProvisionUnlockOutput;

    fn properties() -> ActionProperties {
        ActionProperties::root_equivalent()
            .idempotent()
            .timeout(60)
            .summary("unlocked")
            .examples(include_str!("provision/unlock.json"))
    }
}

/// Inputs of `unlock`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ProvisionUnlockInput {
    /// The fence number of the caller's lock; a lower number than the highest that the node has seen is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
    /// Release the lock of any owner.
    #[schemars(extend("x-default" = false))]
    pub force: bool,
}

/// Outputs of `unlock`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProvisionUnlockOutput {
    /// Whether a lock was released.
    pub unlocked: bool,
}

/// End provisioning mode of this node, until `reprovision`.
#[derive(Debug, JsonSchema)]
pub struct ProvisionDisable;

impl Action for ProvisionDisable {
    type Agent = ProvisionAgent;
    const NAME: &'static str = "disable";
    type Input = FencedStepInput;
    type Output = ProvisionDisableOutput;

    fn properties() -> ActionProperties {
        ActionProperties::root_equivalent()
            .idempotent()
            .timeout(60)
            .summary("disabled")
            .examples(include_str!("provision/disable.json"))
    }
}

/// Inputs of a step without parameters; every other step has this input, too.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct FencedStepInput {
    /// The fence number of the caller's lock; a lower number than the highest that the node has seen is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
}

/// End provisioning: disable and unlock in one step; then the daemon offers all of its agents.
#[derive(Debug, JsonSchema)]
pub struct ProvisionRelease;

impl Action for ProvisionRelease {
    type Agent = ProvisionAgent;
    const NAME: &'static str = "release";
    type Input = FencedStepInput;
    type Output = ProvisionDisableOutput;

    fn properties() -> ActionProperties {
        ActionProperties::root_equivalent()
            .idempotent()
            .timeout(60)
            .summary("disabled")
            .examples(include_str!("provision/release.json"))
    }
}

/// Outputs of `disable` and `release`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProvisionDisableOutput {
    /// Always true.
    pub disabled: bool,
    /// Whether anything changed.
    pub changed: bool,
}

/// Report whether provisioning mode of this node has ended.
#[derive(Debug, JsonSchema)]
pub struct ProvisionIsDisabled;

impl Action for ProvisionIsDisabled {
    type Agent = ProvisionAgent;
    const NAME: &'static str = "is_disabled";
    type Input = EmptyInput;
    type Output = IsDisabledOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read()
            .timeout(60)
            .summary("disabled")
            .examples(include_str!("provision/is_disabled.json"))
    }
}

/// Outputs of `is_disabled`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct IsDisabledOutput {
    /// Whether provisioning mode has ended.
    pub disabled: bool,
    /// Whether the daemon offers only the agents for provisioning.
    #[serde(default)]
    pub provisioning: bool,
}

/// Enable provisioning mode of the node again. The key is kept, unless `wipe` is set.
#[derive(Debug, JsonSchema)]
pub struct ProvisionReprovision;

impl Action for ProvisionReprovision {
    type Agent = ProvisionAgent;
    const NAME: &'static str = "reprovision";
    type Input = ReprovisionInput;
    type Output = ReprovisionOutput;

    fn properties() -> ActionProperties {
        ActionProperties::root_equivalent()
            .idempotent()
            .timeout(60)
            .change_summary()
            .examples(include_str!("provision/reprovision.json"))
    }
}

/// Inputs of `reprovision`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReprovisionInput {
    /// Also remove Puppet's key, certificate, request, authority and revocation list.
    #[schemars(extend("x-default" = false))]
    pub wipe: bool,
    /// Report what would change, but change nothing.
    pub noop: Option<bool>,
}

/// Outputs of `reprovision`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReprovisionOutput {
    /// Whether anything changed, or would change.
    pub changed: bool,
    /// The files that were removed, or would be.
    #[schemars(title = "Removed")]
    pub wiped: Vec<String>,
}
