//! `rpc plugin generate`: writes the files of a new agent. Never overwrites files.

use std::fs;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use muster_files::files::{FileAccessError, file_error};

use crate::commands::plugin::args::PluginGenerateArgs;
use crate::commands::plugin::skeleton;
use crate::commands::plugin::skeleton::{SkeletonError, SkeletonFile};
use crate::session::context::{CommandContext, CommandError, CommandExitCode, CommandResult};

impl CommandError for SkeletonError {
    fn exit_code(&self) -> CommandExitCode {
        CommandExitCode::Usage
    }
}

/// Writes the files and prints their paths.
pub fn run(args: &PluginGenerateArgs, cx: CommandContext<'_>) -> CommandResult {
    let default_directory = || PathBuf::from(&args.agent);
    let directory = args.dir.clone().unwrap_or_else(default_directory);
    let files = skeleton::generate_files(&args.agent, args.lang, &args.actions)?;
    for path in write_files(&directory, &files)? {
        cx.printer.print_line(path.display())?;
    }
    for step in skeleton::next_steps(&args.agent, args.lang) {
        cx.printer.print_hint(step);
    }
    Ok(CommandExitCode::Passed)
}

fn write_files(directory: &Path, files: &[SkeletonFile]) -> Result<Vec<PathBuf>, FileAccessError> {
    fs::create_dir_all(directory).map_err(file_error("write", directory))?;
    let mut written = Vec::new();
    for file in files {
        let path = directory.join(&file.name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(file_error("write", parent))?;
        }
        let mode = if file.executable { 0o755 } else { 0o644 };
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&path)
            .and_then(|mut opened| opened.write_all(file.text.as_bytes()))
            .map_err(file_error("write", &path))?;
        written.push(path);
    }
    Ok(written)
}
