//! `rpc audit verify`: puts the files in the chain's order, reads them, and tells what is wrong with them.

use std::path::PathBuf;

use muster_wire::audit::{Trusting, Verifier};

use super::lines::{self, Part};
use super::{AuditError, Context};
use crate::cli::audit::Verify;
use crate::commands::form;
use crate::error::Error;
use crate::exit::Exit;
use crate::render::audit::{Document, Verified, text};

/// Verifies.
pub(super) fn run(args: Verify, cx: Context<'_>) -> Result<Exit, Error> {
    let json = form::json(&args.json)?;
    let trusting = trusting(&args, cx)?;
    let files = in_order(args.files)?;
    let mut reader = Verifier::new(trusting, args.anchors);
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
