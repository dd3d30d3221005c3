//! `rpc audit verify`: puts the files in the chain's order, reads them, and tells what is wrong with them.

use std::io;
use std::path::{Path, PathBuf};

use muster_wire::audit::{Anchor, Trusting, Verifier};

use super::lines::{self, Part};
use super::{AuditError, Context, head};
use crate::cli::audit::Verify;
use crate::commands::form;
use crate::error::Error;
use crate::exit::Exit;
use crate::render::audit::{Document, Verified, text};

/// Where a daemon keeps its state.
const STATE: &str = "/var/lib/muster";

/// Verifies.
pub(super) fn run(args: Verify, cx: Context<'_>) -> Result<Exit, Error> {
    let json = form::json(&args.json)?;
    let trusting = trusting(&args, cx)?;
    let mut anchors = args.anchors;
    // Read before the logs: a daemon that is at work only adds to them.
    anchors.extend(head_anchors(args.state.as_deref(), &args.files, cx)?);
    let files = in_order(args.files)?;
    let mut reader = Verifier::new(trusting, anchors);
    for file in &files {
        reader.next_file();
        lines::each(file, |part| match part {
            Part::Line(line) => reader.line(line),
            Part::Torn(rest) => reader.torn_end(rest),
        })?;
    }
    let verified = Verified {
        files: &files,
        verdict: reader.finish(),
        strict: args.strict,
    };
    if let Some(json) = json {
        cx.json(&Document::new(&verified), &json)?;
    } else {
        cx.printer.text(text(&verified))?;
    }
    Ok(if verified.passes() {
        Exit::Passed
    } else {
        Exit::SomeFailed
    })
}

/// What the daemon's own records demand. A directory that is named must have one; the usual one is looked at where it is there.
fn head_anchors(
    state: Option<&Path>,
    files: &[PathBuf],
    cx: Context<'_>,
) -> Result<Vec<Anchor>, AuditError> {
    let Some(state) = state else {
        return match head::anchors(Path::new(STATE), files) {
            Err(AuditError::Read { path, source })
                if source.kind() == io::ErrorKind::PermissionDenied =>
            {
                let path = path.display();
                cx.printer.warn(format_args!(
                    "{path} cannot be read, so a log that was cut short may look whole; run this as root"
                ));
                Ok(Vec::new())
            }
            Err(_) => Ok(Vec::new()),
            found => found,
        };
    };
    let found = head::anchors(state, files)?;
    if found.is_empty() {
        let path = state.to_owned();
        return Err(AuditError::NoHead { path });
    }
    Ok(found)
}

/// Keys that are named count; otherwise an operator that is named, or the configuration's.
fn trusting(args: &Verify, cx: Context<'_>) -> Result<Trusting, Error> {
    if !args.keys.is_empty() {
        return Ok(Trusting::Keys(args.keys.clone()));
    }
    if let Some(operator) = args.operator {
        return Ok(Trusting::Operator(operator));
    }
    match cx.settings_if_any()? {
        Some(settings) => Ok(Trusting::Operator(settings.operator)),
        None => Err(AuditError::NoKey.into()),
    }
}

/// By the numbers of their first lines; what has none comes last, as it was named.
fn in_order(files: Vec<PathBuf>) -> Result<Vec<PathBuf>, AuditError> {
    let mut numbered = Vec::with_capacity(files.len());
    for file in files {
        let number = lines::first_number(&file)?;
        numbered.push((number.unwrap_or(u64::MAX), file));
    }
    numbered.sort_by_key(|(number, _)| *number);
    Ok(numbered.into_iter().map(|(_, file)| file).collect())
}
