//! Arguments of `rpc listen`.

use std::time::Duration;

use clap::Args;
use uuid::Uuid;

use crate::flags::output::OutputArgs;
use crate::flags::seconds::parse_seconds;

pub const AFTER_HELP: &str = "Examples:
  rpc listen night-shift puppetral do --expect 40 --output-file results &
  rpc do puppetral type=user name=rip --reply-to night-shift
  rpc listen night-shift rpcutil ping -t 60 --jsonl

NAME stands for the subjects _R.YOUR-KEY.NAME.>, which only your credentials can
read. Pass the same name to `rpc do --reply-to`. Replies that are sent before
the listener has started are lost: start it first. It ends after --expect
replies, after --timeout, or at Ctrl-C. Exits with 2 if a reply is a failure or
fewer than --expect replies arrived, with 3 if none arrived, with 130 at Ctrl-C.";

/// `rpc listen`.
#[derive(Debug, Args)]
pub struct ListenArgs {
    /// Name to which the replies are sent, as given to --reply-to
    #[arg(value_name = "NAME")]
    pub mailbox: String,
    /// Agent of the requests
    #[arg(value_name = "AGENT")]
    pub agent: String,
    /// Action of the requests [default: the agent's default action]
    #[arg(value_name = "ACTION")]
    pub action: Option<String>,
    /// End after N replies
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub expect: Option<u32>,
    /// End after this time
    #[arg(short, long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = parse_seconds)]
    pub timeout: Option<Duration>,
    /// Accept only replies to this request
    #[arg(long, value_name = "ID")]
    pub request: Option<Uuid>,
    /// Output format.
    #[command(flatten)]
    pub output: OutputArgs,
}
