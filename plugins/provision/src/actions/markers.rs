//! `disable`, `is_disabled`, `release`, `reprovision`: the marker of a provisioned node.

use std::sync::Arc;

use muster_api::{ActionError, BlockingContext};
use muster_contract::provision::{
    FencedStepInput, IsDisabledOutput, ProvisionDisableOutput, ReprovisionInput, ReprovisionOutput,
};

use crate::step_context::StepContext;

/// Files that `wipe` removes, by the names of Puppet's settings.
const WIPED_SETTINGS: [&str; 6] =
    ["hostprivkey", "hostpubkey", "hostcsr", "hostcert", "localcacert", "hostcrl"];

/// Marks the node as provisioned; with `unlock`, releases the lock as well.
pub(crate) fn finish_provisioning(
    context: &StepContext,
    cx: &BlockingContext,
    FencedStepInput { fence }: FencedStepInput,
    unlock: bool,
) -> Result<ProvisionDisableOutput, ActionError> {
    let changed = context.lock.finish_provisioning(fence, unlock, cx.system.now())?;
    context.changed.notify_one();
    Ok(ProvisionDisableOutput { disabled: true, changed })
}

pub(crate) fn query_markers(context: &StepContext) -> IsDisabledOutput {
    let (disabled, provisioning) = context.lock.read_markers();
    IsDisabledOutput { disabled, provisioning }
}

pub(crate) fn restart_provisioning(
    context: &Arc<StepContext>,
    cx: &BlockingContext,
    ReprovisionInput { wipe, noop }: ReprovisionInput,
) -> Result<ReprovisionOutput, ActionError> {
    let is_noop = noop == Some(true);
    let mut wiped = Vec::new();
    if wipe {
        let puppet = context.puppet_runner(cx, context.options.request_timeout);
        let settings = puppet.read_settings()?;
        for path in WIPED_SETTINGS.map(|setting| settings.setting_path(setting)) {
            let existing = cx.system.metadata(&path)?;
            if !is_noop {
                cx.system.remove_file(&path)?;
            }
            if existing.is_some() {
                wiped.push(path.display().to_string());
            }
        }
    }
    if is_noop {
        let changed = context.lock.read_markers().0 || !wiped.is_empty();
        return Ok(ReprovisionOutput { changed, wiped });
    }
    // Last, so that no provisioning begins while files are being removed.
    let is_cleared = context.lock.clear_disabled()?;
    context.changed.notify_one();
    Ok(ReprovisionOutput { changed: is_cleared || !wiped.is_empty(), wiped })
}
