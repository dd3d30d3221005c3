//! Arguments of `rpc org program ...`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use muster_wire::token::ProgramName;

use crate::flags::org_directory::{OrgDirectoryArgs, OrgDocumentArgs};

/// `rpc org program ...`.
#[derive(Debug, Subcommand)]
pub enum OrgProgramCommand {
    /// Store programs of the daemon at the broker, and list them in the account token, so that nodes may run them
    #[command(after_help = "Examples:
  rpc org program add 0.2.0 dist/rpcd
  rpc org program add 0.2.0 x86_64/rpcd aarch64/rpcd     both kinds of machines

Nodes trust the list, which the operator's key signs. Compare the file with the
release's SHA256SUMS first.")]
    Add(OrgProgramAddArgs),
    /// List the programs, with the SHA-256 of each
    #[command(after_help = "Examples:
  rpc org program list
  rpc org program list -j | jq -r '.programs[].name'")]
    List(OrgDocumentArgs),
    /// Remove a program from the list; nodes that run it keep it
    #[command(after_help = "Examples:
  rpc org program remove 0.1.0")]
    Remove(OrgProgramRemoveArgs),
}

/// `rpc org program add`.
#[derive(Debug, Args)]
pub struct OrgProgramAddArgs {
    /// Name of the program, usually its version
    #[arg(value_name = "NAME")]
    pub name: ProgramName,
    /// The program rpcd of a release, one for each kind of machine
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// The organisation.
    #[command(flatten)]
    pub organisation: OrgDirectoryArgs,
}

/// `rpc org program remove`.
#[derive(Debug, Args)]
pub struct OrgProgramRemoveArgs {
    /// Name of the program
    #[arg(value_name = "NAME")]
    pub name: ProgramName,
    /// The organisation.
    #[command(flatten)]
    pub organisation: OrgDirectoryArgs,
}
