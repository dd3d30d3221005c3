//! `rpc provision ...`: what may be typed.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use muster_wire::enrol::{NamePattern, TicketFact};
use muster_wire::identity::Identity;

use super::json::Json;
use super::org::Where;
use crate::organisation::lifetime;

/// The commands that bring new machines in.
#[derive(Debug, Subcommand)]
pub enum Provision {
    /// Make a bootstrap token: with it a new machine may ask to become a node
    #[command(after_help = TOKEN)]
    Token(Token),
    /// Show where new nodes stand
    #[command(after_help = STATUS)]
    Status(Status),
    /// Show how new nodes get on, until all have arrived
    #[command(after_help = WATCH)]
    Watch(Watch),
    /// Try failed nodes again
    #[command(after_help = "Examples:\n  rpc provision retry web1.example.com")]
    Retry(Nodes),
    /// Begin no further step of nodes
    #[command(after_help = "Examples:\n  rpc provision pause web1.example.com")]
    Pause(Nodes),
    /// Go on with nodes that were paused
    #[command(after_help = "Examples:\n  rpc provision resume web1.example.com")]
    Resume(Nodes),
    /// Take nodes out of the fleet: their certificates are revoked on all masters
    #[command(after_help = RETIRE)]
    Retire(Retire),
}

const STATUS: &str = "\
Any host of the service is asked; all know the same.

Examples:
  rpc provision status
  rpc provision status web1.example.com     with everything that happened to it
  rpc provision status --state failed -j

Exit codes: 0 no node has failed, 2 some have, 1 no host runs the service.";

const WATCH: &str = "\
On a terminal the table is drawn again as it changes; elsewhere each change is
a line. Ends when every node is done, failed, retired or paused.

Examples:
  rpc provision watch
  rpc provision watch --state working

Exit codes: 0 no node has failed, 2 some have, 1 no host runs the service.";

const RETIRE: &str = "\
Asks before it does it. The node's own token stays valid until it ends or
`rpc org revoke NODE` is run where the organisation's keys are.

Examples:
  rpc provision retire web1.example.com
  rpc provision retire web1.example.com web2.example.com --yes";

const TOKEN: &str = "\
A `*` in a name stands for any characters of one part, never for a dot; a part
that is `**` for one or more parts.

Whoever has the token can do one thing: ask to be enrolled under such a name.
All machines that are started with it share it. `rpc org revoke NAME` ends it
early; nodes that came in by it stay.

Examples:
  rpc provision token --names 'web-*.example.com'
  rpc provision token --names 'ci-*.acme.net' --uses 20 --expires 2h
  rpc provision token --names '**.lab.acme.net' --facts role=lab --name lab";

/// `rpc provision token`.
#[derive(Debug, Args)]
pub struct Token {
    /// Name that machines may ask for, with `*` and `**`; repeatable
    #[arg(long = "names", value_name = "PATTERN", required = true)]
    pub names: Vec<NamePattern>,
    /// How long machines may come in by it, as in 12h, 30d, 1y
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = lifetime::parse)]
    pub expires: Duration,
    /// How many machines may come in by it; any number when left out
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub uses: Option<u32>,
    /// Fact that nodes have which came in by it; repeatable
    #[arg(long = "facts", value_name = "NAME=VALUE")]
    pub facts: Vec<TicketFact>,
    /// What to call it, for lists and revocations; made up when left out
    #[arg(long)]
    pub name: Option<Identity>,
    /// Which organisation.
    #[command(flatten)]
    pub place: Where,
    /// Where to write the credentials, instead of below the organisation's directory
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// `rpc provision status`.
#[derive(Debug, Args)]
pub struct Status {
    /// Only this node, with what happened to it
    pub node: Option<Identity>,
    /// Only nodes that stand there
    #[arg(long, value_enum)]
    pub state: Option<State>,
    /// Whether a document is wanted.
    #[command(flatten)]
    pub json: Json,
}

/// Where a node stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum State {
    /// On its way
    Working,
    /// A step failed for good
    Failed,
    /// A node like any other
    Done,
    /// Its certificate is being taken back
    Retiring,
    /// No node any more
    Retired,
}

impl State {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::Failed => "failed",
            Self::Done => "done",
            Self::Retiring => "retiring",
            Self::Retired => "retired",
        }
    }
}

/// `rpc provision watch`.
#[derive(Debug, Args)]
pub struct Watch {
    /// Only nodes that stand there
    #[arg(long, value_enum)]
    pub state: Option<State>,
    /// How often to look, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub every: u64,
}

/// `rpc provision retry`, `pause` and `resume`.
#[derive(Debug, Args)]
pub struct Nodes {
    /// The nodes
    #[arg(required = true)]
    pub nodes: Vec<Identity>,
}

/// `rpc provision retire`.
#[derive(Debug, Args)]
pub struct Retire {
    /// The nodes
    #[arg(required = true)]
    pub nodes: Vec<Identity>,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
}
