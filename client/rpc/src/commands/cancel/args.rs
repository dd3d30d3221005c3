//! Arguments of `rpc cancel`.

use clap::Args;

use crate::flags::filters::QueryArgs;

pub const AFTER_HELP: &str = "Examples:
  rpc cancel 20260131-235959-3f9a2c  all requests of this job
  rpc cancel nightly-patch           the newest job with this name
  rpc cancel 01890a5d-ac96-774b-bcce-b302099a8057 -C apache
  rpc do rpcutil running             list running requests and their ids

For a job, or a request that belongs to a stored job, all requests of the job
are cancelled, on exactly those nodes that received one and have not replied.
For any other request, or with filters, the request is cancelled on the matching
nodes.

A node replies to the cancelled request with its results so far. A node where
the request is queued never starts it. Exits with 1 if no node cancelled
anything.";

/// `rpc cancel`.
#[derive(Debug, Args)]
pub struct CancelArgs {
    /// Job, as for `rpc job show`, or id of a request, as printed by `rpc do rpcutil running`
    #[arg(value_name = "ID")]
    pub id: String,
    /// Also cancel requests of other callers, where the node's policy allows it
    #[arg(long)]
    pub any: bool,
    /// Cancel only work that has not begun: that waits for a permit, a lock or other calls
    #[arg(long)]
    pub waiting_only: bool,
    /// JSON output, and the nodes.
    #[command(flatten)]
    pub query: QueryArgs,
}
