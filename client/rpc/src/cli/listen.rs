//! `rpc listen`: what may be typed.

use std::time::Duration;

use clap::Args;
use uuid::Uuid;

use super::output::OutputArgs;
use super::seconds::parse_seconds;

/// Examples.
pub const AFTER_HELP: &str = "Examples:
  rpc listen night-shift puppetral do --expect 40 -o results &
  rpc do puppetral type=user name=rip --reply-to night-shift
  rpc listen night-shift rpcutil ping -t 60 --jsonl

A NAME without a dot is a subject below your own inbox, _INBOX.YOUR-KEY.NAME,
which only your credentials can read; `rpc do --reply-to` takes the same name.
What is answered before somebody listens is lost: start to listen first.
It ends after --expect answers, after --timeout, or at Ctrl-C. Exits with 2 when
an answer is a failure or too few came, with 3 when none did.";

/// `rpc listen`.
#[derive(Debug, Args)]
pub struct ListenArgs {
    /// The name that the answers are sent to, as given to --reply-to
    #[arg(value_name = "NAME")]
    pub mailbox: String,
    /// The agent that is asked
    #[arg(value_name = "AGENT")]
    pub agent: String,
    /// The action, the agent's default when left out
    #[arg(value_name = "ACTION")]
    pub action: Option<String>,
    /// End after so many answers
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub expect: Option<u32>,
    /// End after this time
    #[arg(short, long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub timeout: Option<Duration>,
    /// Believe only answers to this request
    #[arg(long, value_name = "ID")]
    pub request: Option<Uuid>,
    /// How results are shown.
    #[command(flatten)]
    pub output: OutputArgs,
}
