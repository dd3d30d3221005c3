//! Arguments of `rpc node`.

use clap::Args;
use muster_wire::identity::Identity;

use crate::commands::node::add::args::NodeCommand;
use crate::flags::json::JsonArgs;
use crate::flags::point_in_time::PointInTime;

pub const AFTER_HELP: &str = "Examples:
  rpc node db1.acme.net              all about it, also if it is down
  rpc node db1.acme.net --live       ask the node itself, not the directory
  rpc node db1.acme.net --verify     check the node's own signature, too
  rpc node db1.acme.net --history    changes of facts, classes and versions
  rpc node db1.acme.net --diff 2d now
  rpc node db1.acme.net -j --jq .facts.os.family
  rpc node add web1.acme.net --ssh   make a machine a node

The record comes from the directory, or without one from the node. Daemon, runs
and history are asked for at the same time, for up to 5 seconds; a section that
this fleet does not have, or that you may not read, says so. Exits with 0 if
there is a record.";

/// `rpc node`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct NodeArgs {
    /// What to do with machines.
    #[command(subcommand)]
    pub command: Option<NodeCommand>,
    /// Name of the node
    #[arg(value_name = "NODE", required = true)]
    pub node: Option<Identity>,
    /// Ask the node itself for its record, not the directory
    #[arg(long, conflicts_with_all = ["verify", "history", "diff"])]
    pub live: bool,
    /// Verify that the node itself signed what the directory says
    #[arg(long)]
    pub verify: bool,
    /// Show what changed on the node, and when: facts, classes, agents and versions
    #[arg(long, conflicts_with_all = ["verify", "diff"])]
    pub history: bool,
    /// Show what differs between two times: now, a time ago as in 2h, or a date
    #[arg(long, num_args = 2, value_names = ["FROM", "UNTIL"], value_parser = PointInTime::parse, conflicts_with = "verify")]
    pub diff: Option<Vec<PointInTime>>,
    /// JSON output.
    #[command(flatten)]
    pub json: JsonArgs,
}
