//! `rpc plugin convert`: converts a Ruby DDL to JSON, and prints what differs. Runs no Ruby, and overwrites no file.

use std::fs;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use muster_ddl::MAX_DDL_BYTES;
use muster_display::escape_to_line;
use muster_files::files::{FileAccessError, file_error, read_text};
use muster_operations::bundle::{ConvertedDdl, ConvertedDdlKind, RubyDdlProblem, convert_ruby_ddl};

use crate::commands::plugin::args::PluginConvertArgs;
use crate::session::context::{CommandContext, CommandError, CommandExitCode, CommandResult};

/// A line of a Ruby DDL that cannot be converted.
#[derive(Debug, thiserror::Error)]
#[error("{}:{line}: {problem}", path.display())]
struct RubyDdlFileError {
    path: PathBuf,
    line: usize,
    problem: RubyDdlProblem,
}

impl CommandError for RubyDdlFileError {
    fn hints(&self) -> Vec<String> {
        match self.problem {
            RubyDdlProblem::OtherPlugin(_) => Vec::new(),
            _ => vec!["change this line of the file, and repeat the command".to_owned()],
        }
    }
}

/// Converts the file, prints the notes, and prints or writes the JSON.
pub fn run(args: &PluginConvertArgs, cx: CommandContext<'_>) -> CommandResult {
    let text = read_text(&args.file, MAX_DDL_BYTES as u64)?;
    let stem = args.file.file_stem().unwrap_or_default().to_string_lossy();
    let converted = convert_ruby_ddl(&stem, &text).map_err(|error| RubyDdlFileError {
        path: args.file.clone(),
        line: error.line,
        problem: error.problem,
    })?;
    for note in &converted.notes {
        let text = escape_to_line(&note.text);
        cx.printer.print_warning(format_args!("{}:{}: {text}", args.file.display(), note.line));
    }
    match &args.into {
        None => cx.printer.print_text(&converted.json)?,
        Some(directory) => cx.printer.print_line(write_ddl(directory, &converted)?.display())?,
    }
    Ok(CommandExitCode::Passed)
}

/// Writes the DDL where clients and nodes look for it, and returns its path.
fn write_ddl(directory: &Path, converted: &ConvertedDdl) -> Result<PathBuf, FileAccessError> {
    let directory = match converted.kind {
        ConvertedDdlKind::Agent => directory.to_owned(),
        ConvertedDdlKind::Data => directory.join("data"),
    };
    fs::create_dir_all(&directory).map_err(file_error("write", &directory))?;
    let path = directory.join(format!("{}.json", converted.name));
    let file = OpenOptions::new().write(true).create_new(true).open(&path);
    file.and_then(|mut file| file.write_all(converted.json.as_bytes()))
        .map_err(file_error("write", &path))?;
    Ok(path)
}
