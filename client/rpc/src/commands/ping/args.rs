//! Arguments of `rpc ping`.

use std::time::Duration;

use clap::Args;

use crate::flags::filters::QueryArgs;
use crate::flags::named_nodes::NamedNodeArgs;
use crate::flags::seconds::parse_seconds;

pub const AFTER_HELP: &str = "Examples:
  rpc ping
  rpc ping -W \"environment=development apache\"
  rpc ping db1 web[1-40].acme.net    a short name, and a range
  rpc ping --graph                   show the distribution of reply times
  rpc ping -t 5 -j                   listen for 5 seconds, print JSON
  rpc ping --expect 5                end after 5 replies
  rpc ping --trace -I db1.acme.net   show the duration of each stage

Exits with 1 if no node replies. With --expect, exits with 2 if fewer nodes
reply, and with 3 if none replies.";

/// `rpc ping`.
#[derive(Debug, Args)]
pub struct PingArgs {
    /// Nodes as arguments.
    #[command(flatten)]
    pub named: NamedNodeArgs,
    /// JSON output, and the nodes.
    #[command(flatten)]
    pub query: QueryArgs,
    /// Show the distribution of reply times as a graph
    #[arg(long, conflicts_with_all = ["json", "jq"])]
    pub graph: bool,
    /// Wait exactly this long for replies
    #[arg(short, long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = parse_seconds, conflicts_with = "discovery_timeout")]
    pub timeout: Option<Duration>,
    /// Stop waiting after N replies
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub expect: Option<u32>,
    /// Show the duration of each stage, on the client and on each node
    #[arg(long)]
    pub trace: bool,
}
