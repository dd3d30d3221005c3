//! `lock`, `unlock`, `is_locked`: the provisioning lock of the node.

use std::sync::Arc;
use std::time::Duration;

use muster_api::{ActionError, AgentAction, CallContext};
use muster_contract::provision::{ProvisionLockInput, ProvisionUnlockInput};
use serde::Serialize;

use super::EmptyProvisionInput;
use crate::fenced_lock::LockStatus;
use crate::step_context::StepContext;

/// Accepted leases, in seconds.
const LEASE_SECONDS_RANGE: std::ops::RangeInclusive<u64> = 5..=3600;

pub(crate) struct ProvisionLockAction(pub(crate) Arc<StepContext>);
pub(crate) struct ProvisionUnlockAction(pub(crate) Arc<StepContext>);
pub(crate) struct IsLockedAction(pub(crate) Arc<StepContext>);

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct ProvisionLockOutput {
    locked: bool,
    owner: String,
    fence: u64,
    /// In seconds since 1970.
    expires: u64,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct ProvisionUnlockOutput {
    unlocked: bool,
}

impl From<LockStatus> for ProvisionLockOutput {
    fn from(status: LockStatus) -> Self {
        Self {
            expires: status.lock.as_ref().map_or(0, |lock| lock.expires / 1000),
            locked: status.lock.is_some(),
            owner: status.owner,
            fence: status.fence,
        }
    }
}

impl AgentAction for ProvisionLockAction {
    const NAME: &'static str = "lock";
    type Input = ProvisionLockInput;
    type Output = ProvisionLockOutput;

    async fn run(
        &self,
        cx: &CallContext,
        input: ProvisionLockInput,
    ) -> Result<ProvisionLockOutput, ActionError> {
        if !LEASE_SECONDS_RANGE.contains(&input.lease) {
            return Err(ActionError::invalid_input("lease must be 5 to 3600 seconds"));
        }
        let lease = Duration::from_secs(input.lease);
        self.0
            .run_blocking(cx, move |context, cx, _| {
                let now = cx.system.now();
                context.lock.acquire_lock(&input.owner, lease, input.fence, now)?;
                Ok(context.lock.lock_status(now)?.into())
            })
            .await
    }
}

impl AgentAction for ProvisionUnlockAction {
    const NAME: &'static str = "unlock";
    type Input = ProvisionUnlockInput;
    type Output = ProvisionUnlockOutput;

    async fn run(
        &self,
        cx: &CallContext,
        input: ProvisionUnlockInput,
    ) -> Result<ProvisionUnlockOutput, ActionError> {
        self.0
            .run_blocking(cx, move |context, cx, _| {
                let now = cx.system.now();
                let unlocked = context.lock.release_lock(input.fence, input.force, now)?;
                Ok(ProvisionUnlockOutput { unlocked })
            })
            .await
    }
}

impl AgentAction for IsLockedAction {
    const NAME: &'static str = "is_locked";
    type Input = EmptyProvisionInput;
    type Output = ProvisionLockOutput;

    async fn run(
        &self,
        cx: &CallContext,
        _: EmptyProvisionInput,
    ) -> Result<ProvisionLockOutput, ActionError> {
        self.0
            .run_blocking(cx, |context, cx, _| {
                Ok(context.lock.lock_status(cx.system.now())?.into())
            })
            .await
    }
}
