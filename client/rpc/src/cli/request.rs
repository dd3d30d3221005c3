//! `rpc do`: what may be typed.

use std::time::Duration;

use clap::Args;

use super::approval::ApprovalArgs;
use super::errand::RequestFlags;
use super::filters::FilterArgs;
use super::output::OutputArgs;
use super::pace::PaceArgs;
use super::seconds::parse_seconds;

/// How the command is used.
pub const USAGE: &str = "rpc do AGENT [ACTION] [KEY=VALUE]... [OPTIONS]
       rpc AGENT ACTION [KEY=VALUE]... [OPTIONS]";

/// Examples.
pub const AFTER_HELP: &str = "Examples:
  rpc do puppetral type=user name=rip              the agent's default action
  rpc puppetral do type=user name=rip password=-   asks for the password
  rpc rpcutil get_fact fact=country -C apache --display all
  rpc do service restart service=httpd -W country=uk -j
  rpc service status service=httpd --group         who differs from the others
  rpc find -C apache | rpc do rpcutil ping --nodes -
  rpc do service restart service=httpd --canary 1 --batch 10% --max-failures 2
  rpc do --resume JOB                              goes on with a rollout
  rpc package purge package=nginx -C apache --request-approval purge.json

`rpc plugin doc AGENT` tells what actions do and take. An interrupted request
(Ctrl-C) says who was asked and who was not, and exits with 2 if it was sent:
nodes that were asked go on until `rpc cancel` takes it back. A second Ctrl-C
ends the command at once.

What changes nodes is kept as a job, which `rpc job` shows.";

/// `rpc do`.
#[derive(Debug, Args)]
pub struct RequestArgs {
    /// The agent
    #[arg(value_name = "AGENT", required_unless_present_any = ["retry_failed", "resume"])]
    pub agent: Option<String>,
    /// The action, the agent's default when left out; then its inputs
    #[arg(value_name = "[ACTION] KEY=VALUE")]
    pub words: Vec<String>,
    /// How long the action may take on a node [default: what the agent's DDL says]
    #[arg(short, long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub timeout: Option<Duration>,
    /// How long a node may take until it begins
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, default_value = "60")]
    pub ttl: Duration,
    /// How results are shown.
    #[command(flatten)]
    pub output: OutputArgs,
    /// How a second person comes in.
    #[command(flatten)]
    pub approval: ApprovalArgs,
    /// How the request is made.
    #[command(flatten)]
    pub errand: RequestFlags,
    /// How many of them, and how fast.
    #[command(flatten)]
    pub pace: PaceArgs,
    /// Which nodes.
    #[command(flatten)]
    pub filters: FilterArgs,
    /// Whether the agent stands where a command could: `rpc AGENT ACTION`.
    #[arg(skip)]
    pub bare: bool,
    /// Whether only help is wanted.
    #[arg(skip)]
    pub help: bool,
}
