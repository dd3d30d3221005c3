//! `rpc plugin check`: whether DDLs can be used, and what could be better. Reads files only.

use std::io::Read as _;
use std::path::Path;

use muster_client::DdlStoreError;
use muster_ddl::MAX_DDL_BYTES;

use crate::ask::AskError;
use crate::cli::plugin::Check;
use crate::commands::context::Context;
use crate::commands::form;
use crate::error::Error;
use crate::exit::Exit;
use crate::render::ddl_check::{Checked, Document, Severity};

/// Runs the command. Every file is looked at before it ends.
pub fn run(args: &Check, cx: Context<'_>) -> Result<Exit, Error> {
    let json = form::json(&args.json)?;
    let files = args.files.iter().map(|path| {
        let bytes = read(path)?;
        Ok(Checked::new(path.display().to_string(), &bytes))
    });
    let files: Vec<Checked> = files.collect::<Result<_, AskError>>()?;
    if let Some(json) = &json {
        cx.json(&Document::new(&files), json)?;
    } else {
        for checked in &files {
            for finding in &checked.findings {
                cx.printer.line(finding.text(&checked.file))?;
            }
        }
    }
    let is_bad = |checked: &Checked| {
        checked.has(Severity::Error) || (args.strict && checked.has(Severity::Warning))
    };
    let bad = files.iter().filter(|checked| is_bad(checked)).count();
    cx.printer
        .say(format_args!("{} checked, {bad} refused", files.len()));
    Ok(if bad == 0 { Exit::Passed } else { Exit::Local })
}

/// As much of the file as tells that it is too long.
fn read(path: &Path) -> Result<Vec<u8>, AskError> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(MAX_DDL_BYTES as u64 + 1).read_to_end(&mut bytes))
        .map_err(|source| DdlStoreError::Read {
            path: path.to_owned(),
            source,
        })?;
    Ok(bytes)
}
