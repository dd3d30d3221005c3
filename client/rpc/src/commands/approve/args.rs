//! Arguments of `rpc approve`.

use std::path::PathBuf;

use clap::Args;

pub const AFTER_HELP: &str = "\
A node requires an approval if the matching line of its policy contains
`approved-by=...`, or if `policy.approve_dangerous` is set and the action has
the class root_equivalent. Users cannot approve their own requests.

Examples:
  rpc package purge package=nginx -C apache --request-approval purge.json
  rpc approve purge.json     as another user; writes purge.json.approved
  rpc package purge package=nginx --approve purge.json.approved";

/// `rpc approve`.
#[derive(Debug, Args)]
pub struct ApproveArgs {
    /// Proposed request, a file written by `rpc AGENT ACTION --request-approval FILE`
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Write the approval to this file; - is standard output [default: FILE.approved]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Show the request without approving it
    #[arg(long, conflicts_with = "yes")]
    pub show: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    pub yes: bool,
}
