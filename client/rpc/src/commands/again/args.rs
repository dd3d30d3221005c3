//! Arguments of `rpc again ...`.

use clap::{Args, Subcommand};

use crate::flags::filters::QueryArgs;

/// Commands for runs of Puppet that ask for another run.
#[derive(Debug, Subcommand)]
pub enum AgainCommand {
    /// List the nodes on which another run of Puppet was asked for, or is not permitted
    #[command(after_help = "Examples:
  rpc again list
  rpc again list --all -C gluster
  rpc again list -j --jq '.nodes[] | select(.oscillating) | .node'

STATE is pending (the run waits for its time, for the end of the run that asked,
or for runs of other nodes), due (it waits for locks or the fleet's budget),
limited (by the limits of the node), running, or oscillating (successive runs
made the same changes; no further run begins before `rpc again reset`).")]
    List(AgainListArgs),
    /// Cancel runs that were asked for and have not begun
    #[command(after_help = "Examples:
  rpc again cancel --all
  rpc again cancel -C gluster
  rpc again cancel --all --group vol1")]
    Cancel(AgainCancelArgs),
    /// List the runs that were asked for: when, by what, and how they ended
    #[command(after_help = "Examples:
  rpc again history -I web1.acme.net
  rpc again history -C gluster --count 5 -j

CAUSE is the run that asked: the end of the id of a run that Muster began, or of
the transaction of a run that was started outside. RUN is the run that was
begun. `-j` prints whole ids.")]
    History(AgainHistoryArgs),
    /// Permit runs on nodes that are oscillating, and clear the limits of nodes
    #[command(after_help = "Examples:
  rpc again reset -I web1.acme.net
  rpc again reset --all")]
    Reset(AgainResetArgs),
}

/// `rpc again list`.
#[derive(Debug, Args)]
pub struct AgainListArgs {
    /// List nodes without a pending run, too
    #[arg(long)]
    pub all: bool,
    /// JSON output, and the nodes.
    #[command(flatten)]
    pub query: QueryArgs,
}

/// `rpc again cancel`.
#[derive(Debug, Args)]
pub struct AgainCancelArgs {
    /// On all nodes; required without a filter
    #[arg(long)]
    pub all: bool,
    /// Only runs that were asked for in this group
    #[arg(long, value_name = "NAME")]
    pub group: Option<String>,
    /// JSON output, and the nodes.
    #[command(flatten)]
    pub query: QueryArgs,
}

/// `rpc again reset`.
#[derive(Debug, Args)]
pub struct AgainResetArgs {
    /// On all nodes; required without a filter
    #[arg(long)]
    pub all: bool,
    /// JSON output, and the nodes.
    #[command(flatten)]
    pub query: QueryArgs,
}

/// `rpc again history`.
#[derive(Debug, Args)]
pub struct AgainHistoryArgs {
    /// Most entries of a node
    #[arg(long, value_name = "NUMBER", default_value_t = 20)]
    pub count: u64,
    /// JSON output, and the nodes.
    #[command(flatten)]
    pub query: QueryArgs,
}
