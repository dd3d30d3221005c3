//! Arguments of `rpc do`.

use std::time::Duration;

use clap::Args;
use serde_json::{Map, Value};

use crate::flags::approval::ApprovalArgs;
use crate::flags::filters::FilterArgs;
use crate::flags::output::OutputArgs;
use crate::flags::request_flags::RequestFlags;
use crate::flags::rollout_flags::PaceArgs;
use crate::flags::seconds::parse_seconds;

pub const USAGE: &str = "rpc do AGENT [ACTION] [KEY=VALUE]... [OPTIONS]
       rpc AGENT ACTION [KEY=VALUE]... [OPTIONS]";

pub const AFTER_HELP: &str = "Examples:
  rpc do puppetral type=user name=rip              the agent's default action
  rpc puppetral do type=user name=rip password=-   prompts for the password
  rpc do puppetral type=file name=/etc/motd content=@motd     from a file
  rpc do puppetral type=group name=ops members=rip,joe        a list
  rpc rpcutil get_fact fact=country -C apache --display all
  rpc do service restart service=httpd -W country=uk -j
  rpc service status service=httpd --fold          groups identical replies
  rpc find -C apache | rpc do rpcutil ping --nodes -
  rpc do service restart service=httpd --canary 1 --batch 10% --max-failures 2
  rpc do --resume JOB                              continues a rollout
  rpc package purge package=nginx -C apache --request-approval purge.json

`rpc plugin doc AGENT` shows the actions of an agent and their inputs.

VALUE is text, @FILE for the content of a file, or - for the standard input. @@
stands for a leading @, and '\\-' is the text -. A list is a,b or [\"a\",\"b\"], or
its input is repeated. A property of a resource that has the name of an input is
params.NAME=VALUE.

Ctrl-C ends the request: the command lists which nodes received it and which did
not, and exits with 130. Nodes that received it continue;
`rpc cancel` stops them. A second Ctrl-C ends the command at once.

Requests that change nodes are stored as jobs: see `rpc job`.";

/// `rpc do`.
#[derive(Debug, Args)]
pub struct RequestArgs {
    /// Name of the agent
    #[arg(value_name = "AGENT", required_unless_present_any = ["retry_failed", "resume"])]
    pub agent: Option<String>,
    /// Action [default: the agent's default action], then its inputs
    #[arg(value_name = "[ACTION] KEY=VALUE")]
    pub words: Vec<String>,
    /// Time limit of the action on a node [default: from the agent's DDL]
    #[arg(short, long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = parse_seconds)]
    pub timeout: Option<Duration>,
    /// Time limit for a node to start the action
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, default_value = "60")]
    pub ttl: Duration,
    /// Limits and batches.
    #[command(flatten)]
    pub pace: PaceArgs,
    /// Options of the request.
    #[command(flatten)]
    pub flags: RequestFlags,
    /// Output format.
    #[command(flatten)]
    pub output: OutputArgs,
    /// Approval by a second user.
    #[command(flatten)]
    pub approval: ApprovalArgs,
    /// The nodes.
    #[command(flatten)]
    pub filters: FilterArgs,
    /// Inputs as values, in addition to the words.
    #[arg(skip)]
    pub base: Map<String, Value>,
    /// Whether the agent is in the place of a command: `rpc AGENT ACTION`.
    #[arg(skip)]
    pub bare: bool,
    /// Whether only help is requested.
    #[arg(skip)]
    pub help: bool,
    /// Whether `@` and `-` in values have no special meaning.
    #[arg(skip)]
    pub literal_values: bool,
}
