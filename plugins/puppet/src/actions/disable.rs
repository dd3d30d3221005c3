//! `disable` disables Puppet runs, with the same lock file and the same bytes as `puppet agent --disable`; `enable` removes that lock.

use std::sync::Arc;

use muster_api::system::FileAttributes;
use muster_api::{ActionError, BlockingContext};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::find_paths;
use crate::files::activity::disabled_reason;
use crate::runs::PuppetRunManager;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct PuppetDisableInput {
    message: Option<String>,
    noop: Option<bool>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct PuppetEnableInput {
    noop: Option<bool>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct PuppetDisableOutput {
    status: String,
    enabled: bool,
    disable_message: String,
    changed: bool,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct PuppetEnableOutput {
    status: String,
    enabled: bool,
    changed: bool,
}

pub(crate) fn disable_runs(
    runs: &Arc<PuppetRunManager>,
    cx: &BlockingContext,
    PuppetDisableInput { message, noop }: PuppetDisableInput,
) -> Result<PuppetDisableOutput, ActionError> {
    let paths = find_paths(&runs.options, &*cx.system)?;
    if let Some(reason) = disabled_reason(&*cx.system, &paths)? {
        return Ok(PuppetDisableOutput {
            status: format!("already disabled: {reason}"),
            enabled: false,
            disable_message: reason,
            changed: false,
        });
    }
    let message = message.unwrap_or_else(|| format!("Disabled via Muster by {}", cx.caller));
    if noop == Some(true) {
        return Ok(PuppetDisableOutput {
            status: format!("would be disabled: {message}"),
            enabled: true,
            disable_message: message,
            changed: true,
        });
    }
    let attributes = FileAttributes { mode: Some(0o644), ..FileAttributes::default() };
    let lock = json!({ "disabled_message": message }).to_string();
    cx.system.write_file(&paths.disabled_lock_path(), lock.as_bytes(), &attributes)?;
    Ok(PuppetDisableOutput {
        status: format!("disabled: {message}"),
        enabled: false,
        disable_message: message,
        changed: true,
    })
}

pub(crate) fn enable_runs(
    runs: &Arc<PuppetRunManager>,
    cx: &BlockingContext,
    PuppetEnableInput { noop }: PuppetEnableInput,
) -> Result<PuppetEnableOutput, ActionError> {
    let paths = find_paths(&runs.options, &*cx.system)?;
    let previous_reason = disabled_reason(&*cx.system, &paths)?;
    let changed = previous_reason.is_some();
    if let (Some(reason), Some(true)) = (&previous_reason, noop) {
        let status = format!("would be enabled; the reason for disabling is: {reason}");
        return Ok(PuppetEnableOutput { status, enabled: false, changed });
    }
    cx.system.remove_file(&paths.disabled_lock_path())?;
    let status = match previous_reason {
        Some(reason) => format!("enabled; the reason for disabling was: {reason}"),
        None => "already enabled".to_owned(),
    };
    Ok(PuppetEnableOutput { status, enabled: true, changed })
}
