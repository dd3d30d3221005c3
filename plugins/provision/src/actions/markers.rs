//! `disable`, `is_disabled`, `release`, `reprovision`: the marker of a provisioned node.

use std::sync::Arc;

use muster_api::{ActionError, AgentAction, CallContext};
use muster_contract::provision::{FencedStepInput, IsDisabledOutput};
use serde::{Deserialize, Serialize};

use super::EmptyProvisionInput;
use crate::puppet::to_action_error;
use crate::step_context::StepContext;

/// Files that `wipe` removes, by the names of Puppet's settings.
const WIPED_SETTINGS: [&str; 6] =
    ["hostprivkey", "hostpubkey", "hostcsr", "hostcert", "localcacert", "hostcrl"];

pub(crate) struct ProvisionDisableAction(pub(crate) Arc<StepContext>);
pub(crate) struct IsDisabledAction(pub(crate) Arc<StepContext>);
pub(crate) struct ProvisionReleaseAction(pub(crate) Arc<StepContext>);
pub(crate) struct ReprovisionAction(pub(crate) Arc<StepContext>);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ReprovisionInput {
    wipe: bool,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct ProvisionDisableOutput {
    disabled: bool,
    changed: bool,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct ReprovisionOutput {
    changed: bool,
    wiped: Vec<String>,
}

async fn finish_provisioning(
    context: &Arc<StepContext>,
    cx: &CallContext,
    fence: Option<u64>,
    unlock: bool,
) -> Result<ProvisionDisableOutput, ActionError> {
    context
        .run_blocking(cx, move |context, cx, _| {
            let changed = context.lock.finish_provisioning(fence, unlock, cx.system.now())?;
            context.changed.notify_one();
            Ok(ProvisionDisableOutput { disabled: true, changed })
        })
        .await
}

impl AgentAction for ProvisionDisableAction {
    const NAME: &'static str = "disable";
    type Input = FencedStepInput;
    type Output = ProvisionDisableOutput;

    async fn run(
        &self,
        cx: &CallContext,
        input: FencedStepInput,
    ) -> Result<ProvisionDisableOutput, ActionError> {
        finish_provisioning(&self.0, cx, input.fence, false).await
    }
}

impl AgentAction for ProvisionReleaseAction {
    const NAME: &'static str = "release";
    type Input = FencedStepInput;
    type Output = ProvisionDisableOutput;

    async fn run(
        &self,
        cx: &CallContext,
        input: FencedStepInput,
    ) -> Result<ProvisionDisableOutput, ActionError> {
        finish_provisioning(&self.0, cx, input.fence, true).await
    }
}

impl AgentAction for IsDisabledAction {
    const NAME: &'static str = "is_disabled";
    type Input = EmptyProvisionInput;
    type Output = IsDisabledOutput;

    async fn run(
        &self,
        cx: &CallContext,
        _: EmptyProvisionInput,
    ) -> Result<IsDisabledOutput, ActionError> {
        self.0
            .run_blocking(cx, |context, _, _| {
                let (disabled, provisioning) = context.lock.read_markers();
                Ok(IsDisabledOutput { disabled, provisioning })
            })
            .await
    }
}

impl AgentAction for ReprovisionAction {
    const NAME: &'static str = "reprovision";
    type Input = ReprovisionInput;
    type Output = ReprovisionOutput;

    async fn run(
        &self,
        cx: &CallContext,
        input: ReprovisionInput,
    ) -> Result<ReprovisionOutput, ActionError> {
        self.0
            .run_blocking(cx, move |context, cx, cancel| {
                let mut wiped = Vec::new();
                if input.wipe {
                    let puppet = context.puppet_runner(cx, cancel, context.options.request_timeout);
                    let settings = puppet.read_settings()?;
                    for setting in WIPED_SETTINGS {
                        let path = settings.setting_path(setting);
                        let existing =
                            cx.system.metadata(&path).map_err(|error| to_action_error(&error))?;
                        cx.system.remove_file(&path).map_err(|error| to_action_error(&error))?;
                        if existing.is_some() {
                            wiped.push(path.display().to_string());
                        }
                    }
                }
                // Last, so that no provisioning begins while files are being removed.
                let is_cleared = context.lock.clear_disabled()?;
                context.changed.notify_one();
                Ok(ReprovisionOutput { changed: is_cleared || !wiped.is_empty(), wiped })
            })
            .await
    }
}
