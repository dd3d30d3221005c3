//! `rpc audit verify`: puts the files in the chain's order, reads them, and tells what is wrong with them.

use std::io;
use std::path::{Path, PathBuf};

use muster_wire::audit::{AuditAnchor, AuditKeyTrust, ChainVerifier};

use super::lines::{self, LogFilePart};
use super::{AuditReadError, CommandContext, head};
use crate::cli::audit::AuditVerifyArgs;
use crate::commands::form;
use crate::error::Error;
use crate::exit::CommandExitCode;
use crate::render::audit::{AuditVerdictDocument, VerifiedAuditLog, render_verdict};

/// Where a daemon keeps its state.
const STATE_DIRECTORY: &str = "/var/lib/muster";

/// Verifies.
pub(super) fn run(args: AuditVerifyArgs, cx: CommandContext<'_>) -> Result<CommandExitCode, Error> {
    let json = form::parse_json_form(&args.json)?;
    let trusting = resolve_key_trust(&args, cx)?;
    let mut anchors = args.anchors;
    // Read before the logs: a daemon that is at work only adds to them.
    anchors.extend(head_anchors(args.state.as_deref(), &args.files, cx)?);
    let files = sort_by_sequence(args.files)?;
    let mut reader = ChainVerifier::new(trusting, anchors);
    for file in &files {
        reader.begin_next_file();
        lines::for_each_part(file, |part| match part {
            LogFilePart::Line(line) => reader.push_line(line),
            LogFilePart::Torn(rest) => reader.push_torn_end(rest),
        })?;
    }
    let verified = VerifiedAuditLog {
        files: &files,
        verdict: reader.finish(),
        strict: args.strict,
    };
    if let Some(json) = json {
        cx.print_json(&AuditVerdictDocument::new(&verified), &json)?;
    } else {
        cx.printer.print_text(render_verdict(&verified))?;
    }
    Ok(if verified.has_passed() {
        CommandExitCode::Passed
    } else {
        CommandExitCode::SomeFailed
    })
}

/// What the daemon's own records demand. A directory that is named must have one; the usual one is looked at where it is there.
fn head_anchors(
    state: Option<&Path>,
    files: &[PathBuf],
    cx: CommandContext<'_>,
) -> Result<Vec<AuditAnchor>, AuditReadError> {
    let Some(state) = state else {
        return match head::read_anchors(Path::new(STATE_DIRECTORY), files) {
            Err(AuditReadError::Read { path, source })
                if source.kind() == io::ErrorKind::PermissionDenied =>
            {
                let path = path.display();
                cx.printer.print_warning(format_args!(
                    "{path} cannot be read, so a log that was cut short may look whole; run this as root"
                ));
                Ok(Vec::new())
            }
            Err(_) => Ok(Vec::new()),
            found => found,
        };
    };
    let found = head::read_anchors(state, files)?;
    if found.is_empty() {
        let path = state.to_owned();
        return Err(AuditReadError::NoHead { path });
    }
    Ok(found)
}

/// Keys that are named count; otherwise an operator that is named, or the configuration's.
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

/// By the numbers of their first lines; what has none comes last, as it was named.
fn sort_by_sequence(files: Vec<PathBuf>) -> Result<Vec<PathBuf>, AuditReadError> {
    let mut numbered = Vec::with_capacity(files.len());
    for file in files {
        let number = lines::first_number(&file)?;
        numbered.push((number.unwrap_or(u64::MAX), file));
    }
    numbered.sort_by_key(|(number, _)| *number);
    Ok(numbered.into_iter().map(|(_, file)| file).collect())
}
