//! `rpc approve`: what may be typed.

use std::path::PathBuf;

use clap::Args;

/// Examples.
pub const AFTER_HELP: &str = "\
Nodes demand it where their policy says `approved-by=...`, or for every action
of the class root_equivalent if `policy.approve_dangerous` is set. It takes two people: nobody approves what they ask for themselves.

Examples:
  rpc package purge package=nginx -C apache --request-approval purge.json
  rpc approve purge.json               by somebody else: writes purge.json.approved
  rpc package purge package=nginx --approve purge.json.approved";

/// `rpc approve`.
#[derive(Debug, Args)]
pub struct ApproveArgs {
    /// What another wants to ask: a file that `rpc AGENT ACTION --request-approval FILE` wrote
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Where to write the approval; - is standard output [default: FILE.approved]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Show it, and approve nothing
    #[arg(long, conflicts_with = "yes")]
    pub show: bool,
    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
}
