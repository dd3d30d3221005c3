//! `disable`: disables Puppet runs, with the same lock file and the same bytes as `puppet agent --disable`.

use std::sync::Arc;

use muster_api::system::FileAttributes;
use muster_api::{ActionError, AgentAction, CallContext};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{find_paths, to_action_error};
use crate::files::activity::disabled_reason;
use crate::runs::PuppetRunManager;

pub(crate) struct PuppetDisableAction(pub(crate) Arc<PuppetRunManager>);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct PuppetDisableInput {
    message: Option<String>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct PuppetDisableOutput {
    status: String,
    enabled: bool,
    disable_message: String,
}

impl AgentAction for PuppetDisableAction {
    const NAME: &'static str = "disable";
    type Input = PuppetDisableInput;
    type Output = PuppetDisableOutput;

    async fn run(
        &self,
        cx: &CallContext,
        input: PuppetDisableInput,
    ) -> Result<PuppetDisableOutput, ActionError> {
        let (runs, system) = (Arc::clone(&self.0), Arc::clone(&cx.system));
        let caller = cx.caller.clone();
        cx.run_blocking(move |_| {
            let paths = find_paths(&runs.options, &*system)?;
            if let Some(reason) = disabled_reason(&*system, &paths).map_err(to_action_error)? {
                return Ok(PuppetDisableOutput {
                    status: format!("already disabled: {reason}"),
                    enabled: false,
                    disable_message: reason,
                });
            }
            let message =
                input.message.unwrap_or_else(|| format!("Disabled via Muster by {caller}"));
            let attributes = FileAttributes { mode: Some(0o644), ..FileAttributes::default() };
            let lock = json!({ "disabled_message": message }).to_string();
            system
                .write_file(&paths.disabled_lock_path(), lock.as_bytes(), &attributes)
                .map_err(to_action_error)?;
            Ok(PuppetDisableOutput {
                status: format!("disabled: {message}"),
                enabled: false,
                disable_message: message,
            })
        })
        .await?
    }
}
