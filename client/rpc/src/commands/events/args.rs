//! Arguments of `rpc events`.

use std::time::Duration;

use clap::Args;

use crate::flags::named_nodes::NodeNames;
use crate::flags::seconds::parse_seconds;

pub const AFTER_HELP: &str = "Examples:
  rpc events                              every event, until Ctrl-C
  rpc events --kind restart               the outcomes of restarts
  rpc events --kind restart_failed -I web1.acme.net
  rpc events --kind check_                problems and recoveries of checks
  rpc events --count 1 -t 3600 --jsonl    wait for one event, at most an hour

Nodes publish an event when a restart ends: restart_ok, restart_failed or
restart_timeout; and when a pending refresh is dropped because its target left
the catalog: refresh_expired. Scheduled checks publish check_problem,
check_recovery, check_flapping_start and _end, check_acknowledged,
check_unacknowledged, check_maintenance_start and _end, check_removed. Runs of
Puppet that ask for another run: again_pending, again_released, again_timed_out,
again_running, again_done, again_would_run, again_suppressed, again_cancelled,
again_oscillating and again_reset.

Each event is signed by its node and verified here. The broker does not store
events, so earlier ones are not shown. Exits with 3 if --count is given and
fewer events arrive.";

/// `rpc events`.
#[derive(Debug, Args)]
pub struct EventsArgs {
    /// Only events whose kind begins with this; may be repeated
    #[arg(long = "kind", value_name = "KIND")]
    pub kinds: Vec<String>,
    /// Only events of this node; may be repeated
    #[arg(short = 'I', long = "with-identity", alias = "identity", value_name = "NODE", value_parser = NodeNames::parse)]
    pub nodes: Vec<NodeNames>,
    /// End after N events
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub count: Option<u32>,
    /// End after this time
    #[arg(short, long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub timeout: Option<Duration>,
    /// Print each event as a line of JSON
    #[arg(long)]
    pub jsonl: bool,
}
