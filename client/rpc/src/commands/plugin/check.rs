//! `rpc plugin check`: whether DDLs can be used, and what could be better. Reads files only.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use muster_client::DdlStoreError;
use muster_ddl::{MAX_DDL_BYTES, MAX_TEMPLATE_BYTES, TEMPLATE_ADVICE, finds_action_by_text};

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
        let bytes = read(path, MAX_DDL_BYTES as u64 + 1)?;
        let mut checked = Checked::new(path.display().to_string(), &bytes);
        for program in programs(path) {
            let begin = read(&program, MAX_TEMPLATE_BYTES)?;
            if finds_action_by_text(&begin) {
                checked.refuse(format!("{}: {TEMPLATE_ADVICE}", program.display()));
            }
        }
        Ok(checked)
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

/// The programs beside a DDL: `NAME`, or the files of the directory `NAME`.
fn programs(ddl: &Path) -> Vec<PathBuf> {
    let own = ddl.with_extension("");
    if own.is_file() {
        return vec![own];
    }
    let files = std::fs::read_dir(&own).into_iter().flatten().flatten();
    files
        .map(|entry| entry.path())
        .filter(|path| path.is_file())
        .collect()
}

/// The first bytes of a file.
fn read(path: &Path, limit: u64) -> Result<Vec<u8>, AskError> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(limit).read_to_end(&mut bytes))
        .map_err(|source| DdlStoreError::Read {
            path: path.to_owned(),
            source,
        })?;
    Ok(bytes)
}
