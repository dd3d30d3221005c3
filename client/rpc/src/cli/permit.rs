//! `rpc permit ...`: what may be typed.

use clap::{Args, Subcommand};

use super::filters::FilterArgs;
use super::json::JsonArgs;

/// The commands on run permits.
#[derive(Debug, Subcommand)]
pub enum PermitCommand {
    /// List the pools: how many hold a permit, and how many wait
    #[command(after_help = "Examples:
  rpc permit list
  rpc permit list puppet -j

Pools are the same for the whole fleet: one node is asked, and tells what the
broker has. Filters say which nodes may be asked.")]
    List(PermitListArgs),
    /// Show who holds a pool's permits, who waits, and since when
    #[command(after_help = "Examples:
  rpc permit show puppet
  rpc permit show puppet -j --jq '.pools[].holders[].node'

FENCE is the permit's number: later ones are larger. A holder that gives no
signs of life loses its permit when the time LEFT is over; a living one renews
it. Who waits with a higher PRIO comes first.")]
    Show(PermitShowArgs),
    /// Take permits away from nodes; what runs under them is stopped
    #[command(after_help = "Examples:
  rpc permit release puppet web1.example.net
  rpc permit release puppet web1.example.net web2.example.net --yes

The nodes themselves give them back, so they must be there. A node that is gone
for good loses its permit by itself, within a minute.")]
    Release(PermitReleaseArgs),
}

/// `rpc permit list`.
#[derive(Debug, Args)]
pub struct PermitListArgs {
    /// Only this pool
    #[arg(value_name = "POOL")]
    pub pool: Option<String>,
    /// Whether a document is wanted.
    #[command(flatten)]
    pub json: JsonArgs,
    /// Which nodes may be asked.
    #[command(flatten)]
    pub filters: FilterArgs,
}

/// `rpc permit show`.
#[derive(Debug, Args)]
pub struct PermitShowArgs {
    /// The pool
    #[arg(value_name = "POOL")]
    pub pool: String,
    /// Whether a document is wanted.
    #[command(flatten)]
    pub json: JsonArgs,
    /// Which nodes may be asked.
    #[command(flatten)]
    pub filters: FilterArgs,
}

/// `rpc permit release`.
#[derive(Debug, Args)]
pub struct PermitReleaseArgs {
    /// The pool
    #[arg(value_name = "POOL")]
    pub pool: String,
    /// The nodes
    #[arg(value_name = "NODE", required = true)]
    pub nodes: Vec<String>,
    /// Do not ask before what runs is stopped
    #[arg(short, long)]
    pub yes: bool,
    /// Whether a document is wanted.
    #[command(flatten)]
    pub json: JsonArgs,
}
