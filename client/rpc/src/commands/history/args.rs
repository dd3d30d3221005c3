//! Arguments of `rpc history` and `rpc report ...`.

use clap::{Args, Subcommand, ValueEnum};
use muster_contract::history::{DEFAULT_HISTORY_ROWS, HistoryKind, MAX_HISTORY_ROWS};
use muster_wire::identity::Identity;
use uuid::Uuid;

use crate::flags::filters::ConditionArgs;
use crate::flags::json::JsonArgs;
use crate::flags::point_in_time::PointInTime;

pub const HISTORY_USAGE: &str = "rpc history [OPTIONS] [FILTERS]
       rpc history resource REFERENCE [OPTIONS] [FILTERS]
       rpc history who USER [OPTIONS] [FILTERS]
       rpc history request|run|release ID [OPTIONS] [FILTERS]";

pub const HISTORY_HELP: &str = "Examples:
  rpc history --since yesterday --changed -C web     who changed what
  rpc history resource 'File[/etc/motd]' -I web1     the past of a resource
  rpc history who rip --since 7d                     what a user did
  rpc history --failed --since 2h                    what failed or was refused
  rpc history --text 'motd nginx' -j                 words in any value
  rpc history --follow -C web                        what happens from now on

Nodes report requests, changes and runs as they happen, and what happened while
the broker was away when it is back. A filter selects nodes as they are now;
without one, nodes that are gone are listed, too. Times are those of the nodes.

GAP says that records of a node are missing: it was cut off for too long, its
disk was full, or its journal was removed.";

pub const DRIFT_HELP: &str = "Examples:
  rpc drift -C web                     what the web servers differ in
  rpc drift -j --jq '.rows[].resource'

A node differs in what its last complete run would have changed and did not,
because the run or the resource was in noop mode. Nodes that differ alike are
one line. SINCE is the first run that reported the difference of any of them
after a run last changed the resource.";

/// `rpc history`.
#[derive(Debug, Args)]
pub struct HistoryArgs {
    /// What is looked for: a resource, a user, a request, a run or a release
    #[arg(value_enum, value_name = "WHAT", requires = "value")]
    pub what: Option<HistorySubject>,
    /// Its name or id
    pub value: Option<String>,
    /// Only rows of this kind: request, change, run or gap
    #[arg(long, value_name = "KIND")]
    pub kind: Option<HistoryKind>,
    /// Only resources of this type
    #[arg(long = "type", value_name = "TYPE")]
    pub resource_type: Option<String>,
    /// Only requests to this agent, and what they changed
    #[arg(long, value_name = "AGENT")]
    pub agent: Option<String>,
    /// Only requests of this action, and what they changed
    #[arg(long, value_name = "ACTION")]
    pub action: Option<String>,
    /// Only rows with all these words
    #[arg(long, value_name = "WORDS")]
    pub text: Option<String>,
    /// Show the newest rows, and then what happens, until Ctrl-C
    #[arg(short, long)]
    pub follow: bool,
    /// Which rows, and their form.
    #[command(flatten)]
    pub rows: HistoryRowArgs,
}

/// Which rows are shown: by time, result and node.
#[derive(Debug, Args)]
pub struct HistoryRowArgs {
    /// Since this time: yesterday, 2h, 7d, 2026-11-26
    #[arg(long, value_name = "TIME", value_parser = PointInTime::parse)]
    pub since: Option<PointInTime>,
    /// Before this time
    #[arg(long, value_name = "TIME", value_parser = PointInTime::parse)]
    pub until: Option<PointInTime>,
    /// Only changes, runs that changed something, and requests that may have
    #[arg(long)]
    pub changed: bool,
    /// Only what failed, was refused or cut off
    #[arg(long)]
    pub failed: bool,
    /// Most rows
    #[arg(long, value_name = "N", default_value_t = DEFAULT_HISTORY_ROWS, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_HISTORY_ROWS)))]
    pub limit: u32,
    /// Which nodes.
    #[command(flatten)]
    pub conditions: ConditionArgs,
    /// JSON output.
    #[command(flatten)]
    pub json: JsonArgs,
}

/// What the value of `rpc history WHAT VALUE` names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum HistorySubject {
    /// A resource, such as `File[/etc/motd]`.
    Resource,
    /// A user.
    Who,
    /// A request, by its id.
    Request,
    /// A run, by its id.
    Run,
    /// A release.
    Release,
}

/// Commands for the reports of runs.
#[derive(Debug, Subcommand)]
pub enum ReportCommand {
    /// List runs, the newest first
    #[command(after_help = "Examples:
  rpc report list --failed --since yesterday
  rpc report list -C web --changed")]
    List(HistoryRowArgs),
    /// Show the report of a run: its changes, failures and messages
    #[command(after_help = "Examples:
  rpc report show web1.acme.net
  rpc report show web1.acme.net 019ac5b2-7c0e-7a31-b0ad-5f6f1d4c2e11
  rpc report show web1.acme.net -j --jq '.report.metrics'

The report has Puppet's format 12. A run that goes on, or that was cut off, has
the events so far.")]
    Show(ReportShowArgs),
    /// Count runs over time, and show which took longest
    #[command(after_help = "Examples:
  rpc report stats                         the last 7 days
  rpc report stats --since 24h -C web

The bars are relative to the period with most runs. Runs that go on or were cut
off do not count in the durations.")]
    Stats(ReportStatsArgs),
    /// Show what runs change and how they end, as it happens
    #[command(after_help = "Examples:
  rpc report follow -C web
  rpc report follow --failed -j

With -j, each row is a line of JSON. Ends with Ctrl-C.")]
    Follow(ReportFollowArgs),
}

/// `rpc report follow`.
#[derive(Debug, Args)]
pub struct ReportFollowArgs {
    /// Only changes, and runs that changed something
    #[arg(long)]
    pub changed: bool,
    /// Only what failed or was cut off
    #[arg(long)]
    pub failed: bool,
    /// Which nodes.
    #[command(flatten)]
    pub conditions: ConditionArgs,
    /// JSON output.
    #[command(flatten)]
    pub json: JsonArgs,
}

/// `rpc report stats`.
#[derive(Debug, Args)]
pub struct ReportStatsArgs {
    /// Since this time: yesterday, 2h, 7d, 2026-11-26
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = PointInTime::parse)]
    pub since: PointInTime,
    /// Before this time [default: now]
    #[arg(long, value_name = "TIME", value_parser = PointInTime::parse)]
    pub until: Option<PointInTime>,
    /// Which nodes.
    #[command(flatten)]
    pub conditions: ConditionArgs,
    /// JSON output.
    #[command(flatten)]
    pub json: JsonArgs,
}

/// `rpc drift`.
#[derive(Debug, Args)]
pub struct DriftArgs {
    /// Which nodes.
    #[command(flatten)]
    pub conditions: ConditionArgs,
    /// JSON output.
    #[command(flatten)]
    pub json: JsonArgs,
}

/// `rpc report show`.
#[derive(Debug, Args)]
pub struct ReportShowArgs {
    /// The node
    pub node: Identity,
    /// The run [default: the last one]
    pub run: Option<Uuid>,
    /// JSON output.
    #[command(flatten)]
    pub json: JsonArgs,
}
