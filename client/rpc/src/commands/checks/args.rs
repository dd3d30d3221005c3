//! Arguments of `rpc checks`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use crate::flags::filters::{FilterArgs, QueryArgs};
use crate::flags::json::JsonArgs;
use crate::flags::lifetime::parse_lifetime;
use crate::flags::list_form::NodeListForm;
use crate::flags::seconds::parse_seconds;

pub const AFTER_HELP: &str = "Examples:
  rpc checks                               the problems of all nodes
  rpc checks --all -C mysql::master
  rpc checks --state critical,unknown -o json
  rpc checks --live -I web1.acme.net       ask the node, not the directory
  rpc checks ack load -I web1.acme.net --comment \"backup runs\" --for 2h
  rpc checks maintenance -C web --for 30m --comment \"new kernel\"
  rpc checks run load -I web1.acme.net
  rpc checks --follow --command-file /var/lib/nagios4/rw/nagios.cmd
  rpc checks --follow --icinga-api https://icinga.acme.net:5665

Nodes run these checks by schedules in /etc/muster/checks.d. Exits with 0, also
if there are problems, and with 1 without a check; with --exit-state, exits like
a check: 2 if one is CRITICAL, 3 if one is UNKNOWN or late or a node is missing,
1 if one is WARNING. Problems that are acknowledged or in maintenance do not
count.";

pub const UNACK_HELP: &str = "Example:\n  rpc checks unack load -I web1.acme.net";

pub const RUN_HELP: &str = "Example:\n  rpc checks run load -I web1.acme.net";

pub const ACK_HELP: &str = "Examples:
  rpc checks ack load -I web1.acme.net --comment \"backup runs\"
  rpc checks ack disk -C mysql::master --comment \"ticket 4711\" --for 2d

Events and `rpc checks` show it until the check is OK.";

pub const MAINTENANCE_HELP: &str = "Examples:
  rpc checks maintenance -I web1.acme.net --for 2h --comment \"new kernel\"
  rpc checks maintenance load -C web --for 30m
  rpc checks maintenance -I web1.acme.net --end

Results are recorded, and problems cause no events until the end.";

/// `rpc checks`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ChecksArgs {
    /// Instead of a list.
    #[command(subcommand)]
    pub command: Option<ChecksCommand>,
    /// The list.
    #[command(flatten)]
    pub list: CheckListArgs,
}

/// Commands for scheduled checks.
#[derive(Debug, Subcommand)]
pub enum ChecksCommand {
    /// Acknowledge the problem of a check until it is OK
    #[command(after_help = ACK_HELP)]
    Ack(AcknowledgeArgs),
    /// Remove the acknowledgement of a check
    #[command(after_help = UNACK_HELP)]
    Unack(CheckNameArgs),
    /// Begin or end a maintenance of a check, or of whole nodes
    #[command(after_help = MAINTENANCE_HELP)]
    Maintenance(MaintenanceArgs),
    /// Run a check now, and show its state
    #[command(after_help = RUN_HELP)]
    Run(CheckNameArgs),
}

/// A state, or what stands for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ListedState {
    /// OK
    Ok,
    /// WARNING
    Warning,
    /// CRITICAL
    Critical,
    /// UNKNOWN
    Unknown,
    /// No hard state yet
    NotChecked,
    /// The node is missing
    Missing,
}

/// The list of `rpc checks`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate command-line flag")]
pub struct CheckListArgs {
    /// Show these states only: ok, warning, critical, unknown, not-checked, missing
    #[arg(
        long,
        value_name = "STATES",
        value_enum,
        value_delimiter = ',',
        hide_possible_values = true,
        conflicts_with = "all"
    )]
    pub state: Vec<ListedState>,
    /// Show all checks
    #[arg(long, conflicts_with = "problems")]
    pub all: bool,
    /// Show problems only, which is the default: not OK, late, or on a missing node
    #[arg(long, conflicts_with = "state")]
    pub problems: bool,
    /// Ask the nodes, which know soft states, the last outputs and performance data
    #[arg(long)]
    pub live: bool,
    /// Exit like a check of Nagios
    #[arg(long)]
    pub exit_state: bool,
    /// Write the current states, and then each change, to Nagios or Icinga
    #[arg(long, requires = "sink", conflicts_with_all = ["state", "all", "problems", "exit_state", "output", "json", "jq"])]
    pub follow: bool,
    /// Command pipe of Nagios, `command_file` of nagios.cfg
    #[arg(long, value_name = "FILE", requires = "follow", group = "sink")]
    pub command_file: Option<PathBuf>,
    /// API of Icinga 2 [default: `icinga.url` of rpc.toml]
    #[arg(long, value_name = "URL", requires = "follow", group = "sink")]
    #[expect(clippy::option_option, reason = "the option may have no value")]
    pub icinga_api: Option<Option<String>>,
    /// With --follow, write all states again after this time, for checks of freshness
    #[arg(long, value_name = "SECONDS", value_parser = parse_refresh, default_value = "300", requires = "follow")]
    pub refresh: Duration,
    /// Form of the output: table, wide, name, json, yaml, or jsonpath=EXPRESSION
    #[arg(short, long, value_name = "FORM", value_parser = NodeListForm::parse, conflicts_with_all = ["json", "jq"])]
    pub output: Option<NodeListForm>,
    /// JSON output.
    #[command(flatten)]
    pub json: JsonArgs,
    /// The nodes.
    #[command(flatten)]
    pub filters: FilterArgs,
}

/// Shortest interval of `--refresh`: each time all states are read.
const MIN_REFRESH: Duration = Duration::from_secs(10);

fn parse_refresh(text: &str) -> Result<Duration, String> {
    let refresh = parse_seconds(text).ok().filter(|refresh| *refresh >= MIN_REFRESH);
    refresh.ok_or_else(|| "expected seconds from 10 to 86400".to_owned())
}

/// A check on some nodes.
#[derive(Debug, Args)]
pub struct CheckNameArgs {
    /// Name of the check
    #[arg(value_name = "CHECK")]
    pub check: String,
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub yes: bool,
    /// JSON output, and the nodes.
    #[command(flatten)]
    pub query: QueryArgs,
}

/// `rpc checks ack`.
#[derive(Debug, Args)]
pub struct AcknowledgeArgs {
    /// What is known of the problem
    #[arg(long, value_name = "TEXT")]
    pub comment: String,
    /// End it after this time even if the problem remains, as in 2h
    #[arg(long = "for", value_name = "TIME", value_parser = parse_lifetime)]
    pub time: Option<Duration>,
    /// The check.
    #[command(flatten)]
    pub check: CheckNameArgs,
}

/// `rpc checks maintenance`.
#[derive(Debug, Args)]
pub struct MaintenanceArgs {
    /// Name of the check; all checks of the nodes without it
    #[arg(value_name = "CHECK")]
    pub check: Option<String>,
    /// How long it lasts, as in 30m, 2h or 1d
    #[arg(long = "for", value_name = "TIME", value_parser = parse_lifetime, required_unless_present = "end")]
    pub time: Option<Duration>,
    /// The reason
    #[arg(long, value_name = "TEXT", conflicts_with = "end")]
    pub comment: Option<String>,
    /// End it
    #[arg(long, conflicts_with = "time")]
    pub end: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub yes: bool,
    /// JSON output, and the nodes.
    #[command(flatten)]
    pub query: QueryArgs,
}
