//! `rpc plugin check`: validates DDLs of agents and data sources, and suggests improvements. Reads files only.

use std::path::{Path, PathBuf};

use muster_calls::DdlStoreError;
use muster_client::FleetRequestError;
use muster_ddl::{MAX_DDL_BYTES, MAX_TEMPLATE_BYTES, TEMPLATE_ADVICE, finds_action_by_text};

use crate::commands::plugin::args::PluginCheckArgs;
use crate::commands::plugin::check_output::{DdlCheckDocument, DdlCheckResult, DdlFindingSeverity};
use crate::session::context::{CommandContext, CommandExitCode, CommandResult};
use crate::session::errors::{convert_hint, is_ruby_ddl};

/// Checks all files, even after an error.
pub fn run(args: &PluginCheckArgs, cx: CommandContext<'_>) -> CommandResult {
    let json = args.json.form()?;
    let files = args.files.iter().map(|path| {
        if is_ruby_ddl(path) {
            return Ok(refuse_ruby_ddl(path));
        }
        let bytes = read_prefix(path, MAX_DDL_BYTES as u64 + 1)?;
        let mut checked = DdlCheckResult::new(path.display().to_string(), &bytes);
        for program in find_programs(path) {
            let prefix = read_prefix(&program, MAX_TEMPLATE_BYTES)?;
            if finds_action_by_text(&prefix) {
                checked.add_refusal(format!("{}: {TEMPLATE_ADVICE}", program.display()));
            }
        }
        Ok(checked)
    });
    let files: Vec<DdlCheckResult> = files.collect::<Result<_, FleetRequestError>>()?;
    let document = DdlCheckDocument { schema: "muster.plugin.check.v1", files: &files };
    cx.print_result(json.as_ref(), &document, || document.render_text())?;
    let is_refused = |checked: &DdlCheckResult| {
        checked.has_severity(DdlFindingSeverity::Error)
            || (args.strict && checked.has_severity(DdlFindingSeverity::Warning))
    };
    let refused_count = files.iter().filter(|checked| is_refused(checked)).count();
    cx.printer.print_message(format_args!("{} checked, {refused_count} refused", files.len()));
    Ok(if refused_count == 0 { CommandExitCode::Passed } else { CommandExitCode::Local })
}

/// The result for a DDL that is not JSON.
fn refuse_ruby_ddl(path: &Path) -> DdlCheckResult {
    let file = path.display().to_string();
    let mut checked = DdlCheckResult { file, agent: None, data_source: None, findings: Vec::new() };
    checked.add_refusal(convert_hint(path));
    checked
}

/// The programs next to a DDL: `NAME`, or the files of the directory `NAME`.
fn find_programs(ddl: &Path) -> Vec<PathBuf> {
    let program = ddl.with_extension("");
    if program.is_file() {
        return vec![program];
    }
    let files = std::fs::read_dir(&program).into_iter().flatten().flatten();
    files.map(|entry| entry.path()).filter(|path| path.is_file()).collect()
}

fn read_prefix(path: &Path, limit: u64) -> Result<Vec<u8>, FleetRequestError> {
    let read = std::fs::File::open(path).and_then(|file| muster_files::read_prefix(file, limit));
    Ok(read.map_err(|source| DdlStoreError::Read { path: path.to_owned(), source })?)
}
