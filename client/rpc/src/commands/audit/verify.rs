//! `rpc audit verify`: sorts the files in the order of the chain, verifies them, and reports errors.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use muster_files::files::{FileAccessError, file_error};
use muster_wire::audit::{AuditAnchor, AuditKeyTrust, ChainVerifier, HeadRecord};

use crate::commands::audit::args::AuditVerifyArgs;
use crate::commands::audit::lines::LogFilePart;
use crate::commands::audit::output::{AuditVerdictDocument, VerifiedAuditLog, render_verdict};
use crate::commands::audit::{AuditReadError, expand_directories, lines};
use crate::session::context::{CommandContext, CommandExitCode, CommandResult, Result};

/// Default state directory of the daemon.
const STATE_DIRECTORY: &str = "/var/lib/muster";

pub(super) fn run(args: AuditVerifyArgs, cx: CommandContext<'_>) -> CommandResult {
    let json = args.json.form()?;
    let trust = resolve_key_trust(&args, cx)?;
    let files = expand_directories(&args.files)?;
    let mut anchors = args.anchors;
    // Read before the logs, because a running daemon only appends to them.
    anchors.extend(head_anchors(args.state.as_deref(), &files, cx)?);
    let files = sort_by_sequence(files)?;
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
        return match read_anchors(Path::new(STATE_DIRECTORY), files) {
            Err(FileAccessError::System { path, source, .. })
                if source.kind() == ErrorKind::PermissionDenied =>
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
    let found = read_anchors(state, files)?;
    if found.is_empty() {
        let path = state.to_owned();
        return Err(AuditReadError::NoHead { path });
    }
    Ok(found)
}

/// Uses the given keys, otherwise the given operator, otherwise the operator of the configuration.
fn resolve_key_trust(args: &AuditVerifyArgs, cx: CommandContext<'_>) -> Result<AuditKeyTrust> {
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
fn sort_by_sequence(files: Vec<PathBuf>) -> Result<Vec<PathBuf>, FileAccessError> {
    let mut numbered = Vec::with_capacity(files.len());
    for file in files {
        let number = lines::first_number(&file)?;
        numbered.push((number.unwrap_or(u64::MAX), file));
    }
    numbered.sort_by_key(|(number, _)| *number);
    Ok(numbered.into_iter().map(|(_, file)| file).collect())
}

/// Builds anchors for these files from the head records in the directory that name one of them. A record applies if its log is among the
/// files, or if its log is gone and an older file of it is among them. The files must reach back to the record.
fn read_anchors(state: &Path, files: &[PathBuf]) -> Result<Vec<AuditAnchor>, FileAccessError> {
    let failed = file_error("read", state);
    let mut found = Vec::new();
    for entry in fs::read_dir(state).map_err(&failed)? {
        let path = entry.map_err(&failed)?.path();
        if path.extension().is_none_or(|extension| extension != "head") {
            continue;
        }
        let text = fs::read_to_string(&path).map_err(file_error("read", &path))?;
        // A crash may leave the record empty; it then gives no anchor.
        let Ok(record) = text.parse::<HeadRecord>() else {
            continue;
        };
        if covers_files(&record, files)? {
            found.push(record.anchor);
        }
    }
    Ok(found)
}

fn covers_files(record: &HeadRecord, files: &[PathBuf]) -> Result<bool, FileAccessError> {
    let Some(log) = record.log.as_deref().map(Path::new) else {
        return Ok(false);
    };
    let is_gone = matches!(fs::metadata(log), Err(error) if error.kind() == ErrorKind::NotFound);
    let is_log = |file: &PathBuf| {
        let file = fs::canonicalize(file).unwrap_or_else(|_| file.clone());
        file == log || (is_gone && file.with_extension("") == log)
    };
    if !files.iter().any(is_log) {
        return Ok(false);
    }
    let mut first = None;
    for file in files {
        let number = lines::first_number(file)?;
        first = first.into_iter().chain(number).min();
    }
    Ok(first.is_none_or(|first| first <= record.anchor.seq))
}
