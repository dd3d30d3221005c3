//! `rpc stats`: what may be typed.

use clap::Args;

use super::filters::FilterArgs;
use super::json::JsonArgs;

/// Examples.
pub const AFTER_HELP: &str = "Examples:
  rpc stats                          what daemons took, and what they refused
  rpc stats -C apache
  rpc stats -j --jq '.nodes[] | select(.replayed > 0) | .node'

TOTAL is what arrived. REFUSED was not authentic: no, broken or foreign
signature, another collective, a role that may not ask. EXPIRED was too old or
from the future, REPLAYED was seen before, OTHERS was meant for other nodes,
DENIED by a policy, REPLIES is what was answered; all since the daemon's start.";

/// `rpc stats`.
#[derive(Debug, Args)]
pub struct StatsArgs {
    /// Whether a document is wanted.
    #[command(flatten)]
    pub json: JsonArgs,
    /// Which nodes.
    #[command(flatten)]
    pub filters: FilterArgs,
}
