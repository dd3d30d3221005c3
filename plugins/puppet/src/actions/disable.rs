//! `disable` disables Puppet runs, with the same lock file and the same bytes as `puppet agent --disable`; `enable` removes that lock.

use std::sync::Arc;

use muster_api::system::FileAttributes;
use muster_api::{ActionError, BlockingContext, EmptyInput};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::find_paths;
use crate::files::activity::disabled_reason;
use crate::runs::PuppetRunManager;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct PuppetDisableInput {
    message: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct PuppetDisableOutput {
    status: String,
    enabled: bool,
    disable_message: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct PuppetEnableOutput {
    status: String,
    enabled: bool,
}

pub(crate) fn disable_runs(
    runs: &Arc<PuppetRunManager>,
    cx: &BlockingContext,
    PuppetDisableInput { message }: PuppetDisableInput,
) -> Result<PuppetDisableOutput, ActionError> {
    let paths = find_paths(&runs.options, &*cx.system)?;
    if let Some(reason) = disabled_reason(&*cx.system, &paths)? {
        return Ok(PuppetDisableOutput {
            status: format!("already disabled: {reason}"),
            enabled: false,
            disable_message: reason,
        });
    }
    let message = message.unwrap_or_else(|| format!("Disabled via Muster by {}", cx.caller));
    let attributes = FileAttributes { mode: Some(0o644), ..FileAttributes::default() };
    let lock = json!({ "disabled_message": message }).to_string();
    cx.system.write_file(&paths.disabled_lock_path(), lock.as_bytes(), &attributes)?;
    Ok(PuppetDisableOutput {
        status: format!("disabled: {message}"),
        enabled: false,
        disable_message: message,
    })
}

pub(crate) fn enable_runs(
    runs: &Arc<PuppetRunManager>,
    cx: &BlockingContext,
    _: EmptyInput,
) -> Result<PuppetEnableOutput, ActionError> {
    let paths = find_paths(&runs.options, &*cx.system)?;
    let previous_reason = disabled_reason(&*cx.system, &paths)?;
    cx.system.remove_file(&paths.disabled_lock_path())?;
    let status = match previous_reason {
        Some(reason) => format!("enabled; the reason for disabling was: {reason}"),
        None => "already enabled".to_owned(),
    };
    Ok(PuppetEnableOutput { status, enabled: true })
}
