//! Arguments of `rpc org backup` and `rpc org restore`.

use std::path::PathBuf;

use clap::Args;

use crate::flags::org_directory::OrgDirectoryArgs;

/// `rpc org backup`.
#[derive(Debug, Args)]
pub struct OrgBackupArgs {
    /// The file, which is replaced if it exists
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The organisation.
    #[command(flatten)]
    pub organisation: OrgDirectoryArgs,
    /// The passphrase.
    #[command(flatten)]
    pub passphrase: PassphraseArgs,
}

/// `rpc org restore`.
#[derive(Debug, Args)]
pub struct OrgRestoreArgs {
    /// File of `rpc org backup`
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Directory to create; it may exist if it is empty
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// The passphrase.
    #[command(flatten)]
    pub passphrase: PassphraseArgs,
    /// Account token that may be later than the backup, as account.jwt of a node or the broker; repeatable
    #[arg(long = "token", value_name = "FILE")]
    pub tokens: Vec<PathBuf>,
    /// Do not ask the broker for later account tokens
    #[arg(long)]
    pub offline: bool,
}

/// Where the passphrase comes from.
#[derive(Debug, Args)]
pub struct PassphraseArgs {
    /// Read the passphrase from the first line of this file, which only you may read [default: ask]
    #[arg(long, value_name = "FILE")]
    pub passphrase_file: Option<PathBuf>,
}
