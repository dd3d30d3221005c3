//! `lock`, `unlock`, `is_locked`: the provisioning lock of the node.

use std::sync::Arc;
use std::time::Duration;

use muster_api::{ActionError, BlockingContext, EmptyInput};
use muster_contract::provision::{
    ProvisionLockInput, ProvisionLockOutput, ProvisionUnlockInput, ProvisionUnlockOutput,
};

use crate::fenced_lock::LockStatus;
use crate::step_context::StepContext;

const LEASE_SECONDS_RANGE: std::ops::RangeInclusive<u64> = 5..=3600;

fn describe_lock(status: LockStatus) -> ProvisionLockOutput {
    ProvisionLockOutput {
        expires: status.lock.as_ref().map_or(0, |lock| lock.expires / 1000),
        locked: status.lock.is_some(),
        owner: status.owner,
        fence: status.fence,
    }
}

pub(crate) fn take_lock(
    context: &Arc<StepContext>,
    cx: &BlockingContext,
    ProvisionLockInput { owner, lease, fence }: ProvisionLockInput,
) -> Result<ProvisionLockOutput, ActionError> {
    if !LEASE_SECONDS_RANGE.contains(&lease) {
        return Err(ActionError::invalid_input("lease must be 5 to 3600 seconds"));
    }
    let (lease, now) = (Duration::from_secs(lease), cx.system.now());
    context.lock.acquire_lock(&owner, lease, fence, now)?;
    Ok(describe_lock(context.lock.lock_status(now)?))
}

pub(crate) fn release_lock(
    context: &Arc<StepContext>,
    cx: &BlockingContext,
    ProvisionUnlockInput { fence, force }: ProvisionUnlockInput,
) -> Result<ProvisionUnlockOutput, ActionError> {
    let unlocked = context.lock.release_lock(fence, force, cx.system.now())?;
    Ok(ProvisionUnlockOutput { unlocked })
}

pub(crate) fn query_lock(
    context: &Arc<StepContext>,
    cx: &BlockingContext,
    _: EmptyInput,
) -> Result<ProvisionLockOutput, ActionError> {
    Ok(describe_lock(context.lock.lock_status(cx.system.now())?))
}
