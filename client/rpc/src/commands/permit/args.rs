//! Arguments of `rpc permit ...`.

use clap::{Args, Subcommand};

use crate::flags::filters::QueryArgs;
use crate::flags::json::JsonArgs;

/// Commands for run permits.
#[derive(Debug, Subcommand)]
pub enum PermitCommand {
    /// List the pools: number of held permits and of waiting nodes
    #[command(after_help = "Examples:
  rpc permit list
  rpc permit list puppet -j

Pools are the same for the whole fleet: the command queries one node, which
reads them from the broker. Filters restrict which nodes may be queried.")]
    List(PermitListArgs),
    /// Show which nodes hold a pool's permits, which wait, and since when
    #[command(after_help = "Examples:
  rpc permit show puppet
  rpc permit show puppet -j --jq '.pools[].holders[].node'

FENCE is the permit's number: later permits have larger numbers. A holder renews
its permit; if it stops renewing, it loses the permit after the time LEFT.
Waiting nodes with a higher PRIO are served first.")]
    Show(PermitShowArgs),
    /// Release the permits of nodes, and stop the runs that hold them
    #[command(after_help = "Examples:
  rpc permit release puppet web1.example.net
  rpc permit release puppet web1.example.net web2.example.net --yes

The nodes release the permits themselves, so they must be connected. A node that
has died loses its permit automatically, within a minute.")]
    Release(PermitReleaseArgs),
}

/// `rpc permit list`.
#[derive(Debug, Args)]
pub struct PermitListArgs {
    /// Show only this pool
    #[arg(value_name = "POOL")]
    pub pool: Option<String>,
    /// JSON output, and the nodes.
    #[command(flatten)]
    pub query: QueryArgs,
}

/// `rpc permit show`.
#[derive(Debug, Args)]
pub struct PermitShowArgs {
    /// Name of the pool
    #[arg(value_name = "POOL")]
    pub pool: String,
    /// JSON output, and the nodes.
    #[command(flatten)]
    pub query: QueryArgs,
}

/// `rpc permit release`.
#[derive(Debug, Args)]
pub struct PermitReleaseArgs {
    /// Name of the pool
    #[arg(value_name = "POOL")]
    pub pool: String,
    /// Names of the nodes
    #[arg(value_name = "NODE", required = true)]
    pub nodes: Vec<String>,
    /// Do not ask for confirmation before stopping runs
    #[arg(short, long)]
    pub yes: bool,
    /// JSON output.
    #[command(flatten)]
    pub json: JsonArgs,
}
