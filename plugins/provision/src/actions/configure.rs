//! `configure`: delivers settings and policies to the daemon.

use std::sync::Arc;

use muster_api::{ActionError, BlockingContext};
use muster_contract::provision::{ProvisionConfigureInput, ProvisionConfigureOutput};

use crate::step_context::StepContext;

pub(crate) fn configure_node(
    context: &Arc<StepContext>,
    cx: &BlockingContext,
    ProvisionConfigureInput { configuration, policies, noop, fence }: ProvisionConfigureInput,
) -> Result<ProvisionConfigureOutput, ActionError> {
    // Exclusive, so that no older provisioner writes after a newer one.
    let _guard = context.lock.admit_exclusive_step(fence, cx.system.now())?;
    let delivery = context.options.accepted_delivery().check(configuration, policies)?;
    let target = context.delivery.as_ref().ok_or_else(|| {
        ActionError::failed("this daemon has no configuration files to deliver to")
    })?;
    let report = target.apply_delivery(&delivery, noop)?;
    let files: Vec<String> = report.files.iter().map(|path| path.display().to_string()).collect();
    Ok(ProvisionConfigureOutput {
        changed: !files.is_empty(),
        files,
        restarting: report.restarting,
    })
}
