//! Arguments of `rpc content ...`.

use clap::Subcommand;

use crate::flags::json::JsonArgs;

/// Commands for the files that catalogs and releases name.
#[derive(Debug, Subcommand)]
pub enum ContentCommand {
    /// List the stored files: address, size, and when each was stored
    #[command(after_help = "Examples:
  rpc content list
  rpc content list -j --jq '[.files[].bytes] | add'

A file is stored once, under its SHA-256, whatever number of catalogs name it.
A file of more than 512 KiB has its bytes in chunks.")]
    List(JsonArgs),
    /// Delete releases, catalogs and files that nothing names
    #[command(after_help = "Example:
  rpc content gc

The compiler does this once a day by itself. What is younger than a day stays,
and so does what a node has or a release names. See `keep_releases` in the
reference of the configuration.")]
    Gc(JsonArgs),
    /// Read all files, and compare each byte with the addresses
    #[command(after_help = "Example:
  rpc content verify

Exits with 2 if something is missing or altered. A compile or a release that
names the file stores it again.")]
    Verify(JsonArgs),
}
