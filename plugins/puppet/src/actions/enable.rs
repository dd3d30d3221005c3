//! `enable`: removes the lock that disables Puppet runs.

use std::sync::Arc;

use muster_api::{ActionError, AgentAction, CallContext};
use serde::{Deserialize, Serialize};

use super::{find_paths, to_action_error};
use crate::files::activity::disabled_reason;
use crate::runs::PuppetRunManager;

pub(crate) struct PuppetEnableAction(pub(crate) Arc<PuppetRunManager>);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct PuppetEnableInput {}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct PuppetEnableOutput {
    status: String,
    enabled: bool,
}

impl AgentAction for PuppetEnableAction {
    const NAME: &'static str = "enable";
    type Input = PuppetEnableInput;
    type Output = PuppetEnableOutput;

    async fn run(
        &self,
        cx: &CallContext,
        _: PuppetEnableInput,
    ) -> Result<PuppetEnableOutput, ActionError> {
        let (runs, system) = (Arc::clone(&self.0), Arc::clone(&cx.system));
        cx.run_blocking(move |_| {
            let paths = find_paths(&runs.options, &*system)?;
            let previous_reason = disabled_reason(&*system, &paths).map_err(to_action_error)?;
            system.remove_file(&paths.disabled_lock_path()).map_err(to_action_error)?;
            let status = match previous_reason {
                Some(reason) => format!("enabled; the reason for disabling was: {reason}"),
                None => "already enabled".to_owned(),
            };
            Ok(PuppetEnableOutput { status, enabled: true })
        })
        .await?
    }
}
