//! `provision()`: provisioning state of the node, for filters that select nodes to provision.

use muster_api::{ActionError, BlockingContext};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fenced_lock::FencedLock;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ProvisionDataOutput {
    disabled: bool,
    locked: bool,
    owner: Option<String>,
    provisioning: bool,
}

pub(crate) fn query_state(
    lock: &FencedLock,
    cx: &BlockingContext,
    _: &str,
) -> Result<ProvisionDataOutput, ActionError> {
    let (disabled, provisioning) = lock.read_markers();
    let held = lock.lock_status(cx.system.now())?.lock;
    Ok(ProvisionDataOutput {
        disabled,
        locked: held.is_some(),
        owner: held.map(|lock| lock.owner),
        provisioning,
    })
}
