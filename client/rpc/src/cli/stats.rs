//! Arguments of `rpc stats`.

use clap::Args;

use super::filters::FilterArgs;
use super::json::JsonArgs;

/// Examples.
pub const AFTER_HELP: &str = "Examples:
  rpc stats                          counters of all daemons
  rpc stats -C apache
  rpc stats -j --jq '.nodes[] | select(.replayed > 0) | .node'

Counters since the start of the daemon: TOTAL is all received requests. REFUSED
were not authentic: missing, invalid or foreign signature, another collective,
or a role without permission to send requests. EXPIRED were too old or from the
future, REPLAYED were seen before, OTHERS were for other nodes, DENIED were
denied by a policy. REPLIES is the number of replies.";

/// `rpc stats`.
#[derive(Debug, Args)]
pub struct StatsArgs {
    /// JSON output.
    #[command(flatten)]
    pub json: JsonArgs,
    /// The nodes.
    #[command(flatten)]
    pub filters: FilterArgs,
}
