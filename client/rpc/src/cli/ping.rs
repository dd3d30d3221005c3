//! `rpc ping`: what may be typed.

use std::time::Duration;

use clap::Args;

use super::filters::FilterArgs;
use super::json::JsonArgs;
use super::seconds::parse_seconds;

/// Examples.
pub const AFTER_HELP: &str = "Examples:
  rpc ping
  rpc ping -W \"environment=development apache\"
  rpc ping --graph                   how the answers are spread over time
  rpc ping -t 5 -j                   listen for 5 seconds, print JSON
  rpc ping --expect 5                ends when 5 have answered
  rpc ping --trace -I db1.acme.net   where the time goes

Exits with 1 when nobody answers. With --expect: with 2 when fewer answer than
that, and with 3 when nobody does.";

/// `rpc ping`.
#[derive(Debug, Args)]
pub struct PingArgs {
    /// Whether a document is wanted.
    #[command(flatten)]
    pub json: JsonArgs,
    /// Draw how the answers are spread over time
    #[arg(long, conflicts_with_all = ["json", "jq"])]
    pub graph: bool,
    /// Listen this long, however quiet it is
    #[arg(short, long, value_name = "SECONDS", value_parser = parse_seconds, conflicts_with = "discovery_timeout")]
    pub timeout: Option<Duration>,
    /// Be content with so many answers, and wait for no more
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub expect: Option<u32>,
    /// Show how long each stage took, here and on each node
    #[arg(long)]
    pub trace: bool,
    /// Which nodes.
    #[command(flatten)]
    pub filters: FilterArgs,
}
