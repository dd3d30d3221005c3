//! `rpc do`: what may be typed.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::filters::Filters;
use super::output::Output;
use super::pace::Pace;
use super::seconds::seconds;
use crate::organisation::lifetime;

/// How the command is used.
pub const USAGE: &str = "rpc do AGENT [ACTION] [KEY=VALUE]... [OPTIONS]
       rpc AGENT ACTION [KEY=VALUE]... [OPTIONS]";

/// Examples.
pub const AFTER: &str = "Examples:
  rpc do puppetral type=user name=rip              the agent's default action
  rpc puppetral do type=user name=rip password=-   asks for the password
  rpc rpcutil get_fact fact=country -C apache --display all
  rpc do service restart service=httpd -W country=uk -j
  rpc service status service=httpd --group         who differs from the others
  rpc find -C apache | rpc do rpcutil ping --nodes -
  rpc package purge package=nginx -C apache --request-approval purge.json

`rpc plugin doc AGENT` tells what actions do and take. An interrupted request
(Ctrl-C) exits with 2 if it was sent: the nodes that were asked go on until
`rpc cancel` takes it back.";

/// `rpc do`.
#[derive(Debug, Args)]
pub struct Request {
    /// The agent
    #[arg(value_name = "AGENT")]
    pub agent: String,
    /// The action, the agent's default when left out; then its inputs
    #[arg(value_name = "[ACTION] KEY=VALUE")]
    pub words: Vec<String>,
    /// How long the action may take on a node [default: what the agent's DDL says]
    #[arg(short, long, value_name = "SECONDS", value_parser = seconds)]
    pub timeout: Option<Duration>,
    /// How long a node may take until it begins
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "60")]
    pub ttl: Duration,
    /// How results are shown.
    #[command(flatten)]
    pub output: Output,
    /// Ask nobody, but write what would be asked into a new file, for a second person to approve
    #[arg(long = "request-approval", value_name = "FILE", help_heading = "Approval", conflicts_with_all = ["approve", "file", "json", "jq", "jsonl", "senders", "table", "group", "template"])]
    pub propose: Option<PathBuf>,
    /// How long it may be asked after that, as in 30m or 2h; at most a day
    #[arg(long, value_name = "TIME", help_heading = "Approval", value_parser = lifetime::parse, default_value = "1h")]
    pub approval_for: Duration,
    /// Ask what this file approves, of the nodes that it names; `rpc approve` writes it
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Approval",
        conflicts_with = "nodes"
    )]
    pub approve: Option<PathBuf>,
    /// How many of them, and how fast.
    #[command(flatten)]
    pub pace: Pace,
    /// Which nodes.
    #[command(flatten)]
    pub filters: Filters,
    /// Whether the agent stands where a command could: `rpc AGENT ACTION`.
    #[arg(skip)]
    pub bare: bool,
    /// Whether only help is wanted.
    #[arg(skip)]
    pub help: bool,
}
