//! `rpc audit`: reads a node's audit log from local files. The wire crate defines and verifies the hash chain.

pub mod args;
mod lines;
pub mod output;
mod show;
mod verify;

use std::fs;
use std::path::PathBuf;

use muster_files::files::{FileAccessError, file_error};

use crate::commands::audit::args::AuditCommand;
use crate::session::context::{CommandContext, CommandError, CommandResult};

#[derive(Debug, thiserror::Error)]
pub enum AuditReadError {
    #[error(transparent)]
    File(#[from] FileAccessError),
    #[error("no head record in {} refers to any of these files", path.display())]
    NoHead { path: PathBuf },
    #[error("no file in {} is an audit log", path.display())]
    NoLog { path: PathBuf },
    #[error("no operator or key is known to verify the signatures")]
    NoKey,
}

impl CommandError for AuditReadError {
    fn hints(&self) -> Vec<String> {
        match self {
            Self::File(_) | Self::NoLog { .. } => Vec::new(),
            Self::NoHead { .. } => vec![
                "specify the files by the paths that the daemon writes to, or pass the record with `--anchor`"
                    .to_owned(),
            ],
            Self::NoKey => vec![
                "pass the operator with `--operator O...`, or the node's own key with `--key U...`"
                    .to_owned(),
                "with a configuration (`--config`), its `trust.operator` is used".to_owned(),
            ],
        }
    }
}

pub fn run(command: AuditCommand, cx: CommandContext<'_>) -> CommandResult {
    match command {
        AuditCommand::Verify(args) => verify::run(args, cx),
        AuditCommand::Show(args) => show::run(&args, cx),
    }
}

/// The files, and instead of a directory the audit logs in it, in the order of their chains.
fn expand_directories(paths: &[PathBuf]) -> Result<Vec<PathBuf>, AuditReadError> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let failed = file_error("read", path);
        let mut logs = Vec::new();
        for entry in fs::read_dir(path).map_err(&failed)? {
            let file = entry.map_err(&failed)?.path();
            let number = if file.is_file() { lines::first_number(&file)? } else { None };
            logs.extend(number.map(|number| (number, file)));
        }
        if logs.is_empty() {
            return Err(AuditReadError::NoLog { path: path.clone() });
        }
        logs.sort();
        files.extend(logs.into_iter().map(|(_, file)| file));
    }
    Ok(files)
}
