//! `disable` disables Puppet runs, with the same lock file and the same bytes as `puppet agent --disable`; `enable` removes that lock.

use std::path::Path;
use std::sync::Arc;

use muster_api::system::{FileAttributes, System, SystemResult};
use muster_api::{ActionError, BlockingContext};
use muster_contract::puppet::{
    PuppetDisableInput, PuppetDisableOutput, PuppetEnableInput, PuppetEnableOutput,
};
use serde_json::json;
use uuid::Uuid;

use super::find_paths;
use crate::files::activity::disabled_reason;
use crate::runs::PuppetRunManager;

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
    write_lock(&*cx.system, &paths.disabled_lock_path(), &message)?;
    Ok(PuppetDisableOutput {
        status: format!("disabled: {message}"),
        enabled: false,
        disable_message: message,
        changed: true,
    })
}

/// Writes the lock to a file with a unique name, and renames it. Puppet's user may own the directory, and could replace the lock by a link to another file
/// before it is written.
fn write_lock(system: &dyn System, lock: &Path, message: &str) -> SystemResult<()> {
    let attributes = FileAttributes { mode: Some(0o644), ..FileAttributes::default() };
    let text = json!({ "disabled_message": message }).to_string();
    let new = lock.with_extension(Uuid::now_v7().to_string());
    system.write_file(&new, text.as_bytes(), &attributes)?;
    system.rename(&new, lock).inspect_err(|_| {
        // The error of the rename is the one to report.
        let _ = system.remove_file(&new);
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
