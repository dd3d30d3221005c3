//! `rpc audit`: reads a node's audit log from local files. The wire crate defines and verifies the hash chain.

mod lines;
mod show;
mod verify;

use std::path::PathBuf;

use muster_secret::files::FileAccessError;

use crate::cli::audit::AuditCommand;
use crate::commands::context::{CommandContext, CommandResult};
use crate::error::CommandError;

/// Reading or verifying an audit log failed.
#[derive(Debug, thiserror::Error)]
pub enum AuditReadError {
    /// A file cannot be read.
    #[error(transparent)]
    File(#[from] FileAccessError),
    /// No head record in the directory names one of these files.
    #[error("no head record in {} refers to any of these files", path.display())]
    NoHead {
        /// The directory.
        path: PathBuf,
    },
    /// No key or operator is configured to verify signatures with.
    #[error("no operator or key is known to verify the signatures")]
    NoKey,
}

impl CommandError for AuditReadError {
    fn hints(&self) -> Vec<String> {
        match self {
            Self::File(_) => Vec::new(),
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

/// Runs one of the commands.
pub fn run(command: AuditCommand, cx: CommandContext<'_>) -> CommandResult {
    match command {
        AuditCommand::Verify(args) => verify::run(args, cx),
        AuditCommand::Show(args) => show::run(&args, cx),
    }
}
