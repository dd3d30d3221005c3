//! `rpc cancel`: what may be typed.

use clap::Args;
use uuid::Uuid;

use super::filters::Filters;
use super::json::Json;

/// Examples.
pub const AFTER: &str = "Examples:
  rpc cancel 01890a5d-ac96-774b-bcce-b302099a8057
  rpc cancel 01890a5d-ac96-774b-bcce-b302099a8057 -C apache
  rpc do rpcutil running             who does what, with the ids

Nodes answer the cancelled request with what they had done. Nodes where it waits
for its turn never start it. Exits with 1 when no node had it at work.";

/// `rpc cancel`.
#[derive(Debug, Args)]
pub struct Cancel {
    /// The request's id, as an interrupted `rpc do` or `rpc do rpcutil running` tells it
    #[arg(value_name = "ID")]
    pub id: Uuid,
    /// Also a request of another caller, where the node's policy lets you
    #[arg(long)]
    pub any: bool,
    /// Whether a document is wanted.
    #[command(flatten)]
    pub json: Json,
    /// Which nodes.
    #[command(flatten)]
    pub filters: Filters,
}
