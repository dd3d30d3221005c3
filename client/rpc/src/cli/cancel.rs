//! `rpc cancel`: what may be typed.

use clap::Args;

use super::filters::FilterArgs;
use super::json::JsonArgs;

/// Examples.
pub const AFTER_HELP: &str = "Examples:
  rpc cancel 20260131-235959-3f9a2c  all that this job has asked
  rpc cancel nightly-patch           the newest job of that name
  rpc cancel 01890a5d-ac96-774b-bcce-b302099a8057 -C apache
  rpc do rpcutil running             who does what, with the ids

Of a job, or of a request that is part of a kept one, exactly those nodes are
asked that the job had asked and that have not answered it, about all of its
requests. With filters, and for any other request, the nodes that match are.

Nodes answer the cancelled request with what they had done. Nodes where it waits
for its turn never start it. Exits with 1 when no node had it at work.";

/// `rpc cancel`.
#[derive(Debug, Args)]
pub struct CancelArgs {
    /// A job, named as for `rpc job show`, or a request's id, as `rpc do rpcutil running` tells it
    #[arg(value_name = "ID")]
    pub id: String,
    /// Also a request of another caller, where the node's policy lets you
    #[arg(long)]
    pub any: bool,
    /// Whether a document is wanted.
    #[command(flatten)]
    pub json: JsonArgs,
    /// Which nodes.
    #[command(flatten)]
    pub filters: FilterArgs,
}
