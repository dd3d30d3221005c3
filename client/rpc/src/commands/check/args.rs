//! Arguments of `rpc check`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use muster_contract::nrpe::CheckState;
use muster_operations::check::NodeThreshold;

use crate::flags::filters::FilterArgs;
use crate::flags::json::JsonArgs;
use crate::flags::seconds::parse_seconds;

pub const AFTER_HELP: &str = "Examples:
  rpc check check_load -W \"environment=production\"
  rpc check check_disks -C mysql::master --warn 10% --crit 25%
  rpc check check_http --args '80!/health' --unknown-as warning
  rpc check check_load --all-known --cache 30
  rpc check check_load --perfdata    also sum, average, lowest, highest value
  rpc check check_load --prometheus > check_load.prom
  rpc check check_load --command-file /var/lib/nagios4/rw/nagios.cmd
  rpc check check_load --icinga-api https://icinga.acme.net:5665

Runs a check of the nodes' NRPE configuration and prints one result for Nagios.
Exits with 2 if a node is CRITICAL, otherwise with 3 if one is UNKNOWN, with 1
if one is WARNING, with 0 if all are OK. Nodes that do not reply are UNKNOWN.
Exits with 3, too, without nodes or a broker.";

/// The state that UNKNOWN counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CheckStateName {
    /// Exit code 0
    Ok,
    /// Exit code 1
    Warning,
    /// Exit code 2
    Critical,
    /// Exit code 3
    Unknown,
}

impl From<CheckStateName> for CheckState {
    fn from(name: CheckStateName) -> Self {
        match name {
            CheckStateName::Ok => Self::Ok,
            CheckStateName::Warning => Self::Warning,
            CheckStateName::Critical => Self::Critical,
            CheckStateName::Unknown => Self::Unknown,
        }
    }
}

/// `rpc check`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate command-line flag")]
pub struct CheckArgs {
    /// Name of the check: a command of nrpe.cfg on the nodes
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Arguments of the check, separated by `!`, if the nodes accept any
    #[arg(short, long, value_name = "A!B")]
    pub args: Option<String>,
    /// Time limit of the check on a node [default: 30]
    #[arg(short, long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub timeout: Option<Duration>,
    /// Count UNKNOWN as another state for the exit code: ok, warning or critical
    #[arg(
        long,
        value_name = "STATE",
        value_enum,
        default_value = "unknown",
        hide_possible_values = true,
        hide_default_value = true
    )]
    pub unknown_as: CheckStateName,
    /// Exit with 1 from this number or share of nodes that are not OK, such as 3 or 10%
    #[arg(long, value_name = "NODES")]
    pub warn: Option<NodeThreshold>,
    /// Exit with 2 from this number or share of nodes that are not OK
    #[arg(long, value_name = "NODES")]
    pub crit: Option<NodeThreshold>,
    /// Check all nodes that the directory knows; those that are down are UNKNOWN
    #[arg(long = "all-known", alias = "expect")]
    pub expect: bool,
    /// Use a result of this or another process that is at most this old
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub cache: Option<Duration>,
    /// Add sum, average, lowest and highest value of each label to the performance data
    #[arg(long, conflicts_with_all = ["prometheus", "json", "jq"])]
    pub perfdata: bool,
    /// Count only nodes that replied in total=, as check-mc-nrpe does
    #[arg(long, conflicts_with_all = ["prometheus", "json", "jq"])]
    pub compat: bool,
    /// Also write the result of each node to this command pipe of Nagios
    #[arg(long, value_name = "FILE", conflicts_with = "icinga_api")]
    pub command_file: Option<PathBuf>,
    /// Also send the result of each node to the API of Icinga 2 [default: `icinga.url` of rpc.toml]
    #[arg(long, value_name = "URL")]
    #[expect(clippy::option_option, reason = "the option may have no value")]
    pub icinga_api: Option<Option<String>>,
    /// Time after which Icinga runs a check of its own unless there is a newer result
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, requires = "icinga_api")]
    pub icinga_ttl: Option<Duration>,
    /// Print metrics of each node in the format of Prometheus
    #[arg(long, conflicts_with_all = ["json", "jq"])]
    pub prometheus: bool,
    /// JSON output.
    #[command(flatten)]
    pub json: JsonArgs,
    /// The nodes.
    #[command(flatten)]
    pub filters: FilterArgs,
}
