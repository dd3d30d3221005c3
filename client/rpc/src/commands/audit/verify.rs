//! `rpc audit verify`: sorts the files in the order of the chain, verifies them, and reports errors.

use std::io;
use std::path::{Path, PathBuf};

use muster_audit::{AuditAnchor, AuditKeyTrust, ChainVerifier};

use super::lines::{self, LogFilePart};
use super::{AuditReadError, head};
use crate::cli::audit::AuditVerifyArgs;
use crate::commands::context::{CommandContext, CommandExitCode, CommandResult, Error};
use crate::commands::form;
use crate::files::RpcFileError;
use crate::render::audit::{AuditVerdictDocument, VerifiedAuditLog, render_verdict};

/// Default state directory of the daemon.
const STATE_DIRECTORY: &str = "/var/lib/muster";

/// Runs the command.
pub(super) fn run(args: AuditVerifyArgs, cx: CommandContext<'_>) -> CommandResult {
    let json = form::parse_json_form(&args.json)?;
    let trust = resolve_key_trust(&args, cx)?;
    let mut anchors = args.anchors;
    // Read before the logs, because a running daemon only appends to them.
    anchors.extend(head_anchors(args.state.as_deref(), &args.files, cx)?);
    let files = sort_by_sequence(args.files)?;
    let mut verifier = ChainVerifier::new(trust, anchors);
    for file in &files {
        verifier.begin_next_file();
        lines::for_each_part(file, |part| match part {
            LogFilePart::Line(line) => verifier.push_line(line),
            LogFilePart::Torn(rest) => verifier.push_torn_end(rest),
        })?;
    }
    let log =
        VerifiedAuditLog { files: &files, verification: verifier.finish(), strict: args.strict };
    let document = AuditVerdictDocument::new(&log);
    cx.print_result(json.as_ref(), &document, || render_verdict(&log))?;
    Ok(CommandExitCode::from_verdict(log.has_passed()))
}

/// Anchors from the daemon's head records. A directory given by the user must contain one; the default directory is used if it exists.
fn head_anchors(
    state: Option<&Path>,
    files: &[PathBuf],
    cx: CommandContext<'_>,
) -> Result<Vec<AuditAnchor>, AuditReadError> {
    let Some(state) = state else {
        return match head::read_anchors(Path::new(STATE_DIRECTORY), files) {
            Err(RpcFileError::System { path, source, .. })
                if source.kind() == io::ErrorKind::PermissionDenied =>
            {
                let path = path.display();
                cx.printer.print_warning(format_args!(
                    "cannot read {path}: permission denied; a truncated log may not be detected; run this as root"
                ));
                Ok(Vec::new())
            }
            Err(_) => Ok(Vec::new()),
            Ok(found) => Ok(found),
        };
    };
    let found = head::read_anchors(state, files)?;
    if found.is_empty() {
        let path = state.to_owned();
        return Err(AuditReadError::NoHead { path });
    }
    Ok(found)
}

/// Uses the given keys, otherwise the given operator, otherwise the operator of the configuration.
fn resolve_key_trust(
    args: &AuditVerifyArgs,
    cx: CommandContext<'_>,
) -> Result<AuditKeyTrust, Error> {
    if !args.keys.is_empty() {
        return Ok(AuditKeyTrust::Keys(args.keys.clone()));
    }
    if let Some(operator) = args.operator {
        return Ok(AuditKeyTrust::Operator(operator));
    }
    match cx.load_settings_if_any()? {
        Some(settings) => Ok(AuditKeyTrust::Operator(settings.operator)),
        None => Err(AuditReadError::NoKey.into()),
    }
}

/// Sorts files by the sequence number of their first line. Files without one come last, in the given order.
fn sort_by_sequence(files: Vec<PathBuf>) -> Result<Vec<PathBuf>, RpcFileError> {
    let mut numbered = Vec::with_capacity(files.len());
    for file in files {
        let number = lines::first_number(&file)?;
        numbered.push((number.unwrap_or(u64::MAX), file));
    }
    numbered.sort_by_key(|(number, _)| *number);
    Ok(numbered.into_iter().map(|(_, file)| file).collect())
}
