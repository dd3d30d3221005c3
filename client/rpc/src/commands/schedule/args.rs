//! Arguments of `rpc schedule ...`.

use std::num::NonZeroU32;
use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand};
use muster_filter::parse_date_millis;
use muster_wire::Millis;
use muster_wire::identity::{Identity, SubjectName};

use crate::flags::filters::{ConditionArgs, HELP_HEADING};
use crate::flags::json::JsonArgs;
use crate::flags::lifetime::parse_lifetime;

const TIMING_HEADING: &str = "Times";
const ORDER_HEADING: &str = "Order and limits";

/// Commands for actions that are requested by a schedule.
#[derive(Debug, Subcommand)]
pub enum ScheduleCommand {
    /// Request an action by a schedule, in your name
    #[command(override_usage = "rpc schedule add NAME AGENT [ACTION] [KEY=VALUE]... [OPTIONS]", after_help = ADD_HELP)]
    Add(Box<ScheduleAddArgs>),
    /// List the schedules
    #[command(after_help = "Examples:
  rpc schedule list
  rpc schedule list -j --jq '.schedules[] | select(.overdue > 0) | .name'

STATE is active, paused, ended, or refused: the nodes no longer accept the
author. MISSED are nodes whose last turn could not begin, OVERDUE nodes whose
last run is older than two intervals.")]
    List(JsonArgs),
    /// Show one schedule: its nodes, next starts, results, and problems
    #[command(after_help = "Examples:
  rpc schedule show puppet
  rpc schedule show puppet --load    the expected number of runs over time")]
    Show(ScheduleShowArgs),
    /// Request nothing until `rpc schedule resume`
    #[command(after_help = "Examples:
  rpc schedule pause puppet --reason 'database move'
  rpc schedule pause --all")]
    Pause(SchedulePauseArgs),
    /// Continue schedules that were paused
    #[command(after_help = "Examples:
  rpc schedule resume puppet
  rpc schedule resume --all")]
    Resume(ScheduleSelectionArgs),
    /// Remove a schedule
    #[command(after_help = "Example:
  rpc schedule remove puppet")]
    Remove(ScheduleNameArgs),
    /// Assign the starts of a schedule again, by measured run times
    #[command(after_help = "Example:
  rpc schedule rebalance puppet

Nodes keep their times otherwise, also where the runs of some take much longer.
A node that moves has one interval that is shorter or longer; `rpc schedule show
NAME --load` prints the peak before and after.")]
    Rebalance(ScheduleNameArgs),
    /// List what became of the turns of a schedule, newest first
    #[command(after_help = "Examples:
  rpc schedule history puppet
  rpc schedule history puppet --node web1.acme.net --count 5
  rpc schedule history puppet -j --jq '.entries[] | select(.took_ms > 60000)'")]
    History(ScheduleHistoryArgs),
    /// Show the starts of the next day, without requesting anything
    #[command(
        override_usage = "rpc schedule simulate NAME [OPTIONS]
       rpc schedule simulate [NAME] AGENT [ACTION] [KEY=VALUE]... [OPTIONS]",
        after_help = "Examples:
  rpc schedule simulate puppet                          a schedule that exists
  rpc schedule simulate puppet runonce --every 30m -C apache
  rpc schedule simulate puppet runonce --cron '0 3 * * *' --concurrency 10
  rpc schedule simulate patch puppet runonce --every 1d    a line of `add`"
    )]
    Simulate(Box<ScheduleSimulateArgs>),
}

const ADD_HELP: &str = "Examples:
  rpc schedule add puppet puppet runonce --every 30m --concurrency 20
  rpc schedule add nightly package refresh --cron '0 3 * * *' \\
      --tz Europe/Berlin --spread 1h -C apache
  rpc schedule add patch puppet runonce --every 1d \\
      --window 'mon-fri 22:00-04:00' \\
      --blackout 2026-12-24T00:00:00+01:00/2026-12-27T00:00:00+01:00

The schedule is signed with your key. The service requests the action in your
name, and nodes decide as if you had requested it: it ends with --until, with
your credentials, and when you are revoked. Inputs are stored in clear text.

Each node has its own time in an interval, and keeps it. A node that matches
later joins by itself. A window is written as DAYS HH:MM-HH:MM in the time zone
of --tz. Durations have a unit: s, m, h, d or w.";

/// `rpc schedule add`.
#[derive(Debug, Args)]
pub struct ScheduleAddArgs {
    /// Name of the schedule
    pub name: SubjectName,
    /// Agent, action [default: the agent's default action], and its inputs
    #[arg(value_name = "AGENT [ACTION] KEY=VALUE", required = true, num_args = 1..)]
    pub words: Vec<String>,
    /// Replace a schedule of the same name
    #[arg(long)]
    pub replace: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub yes: bool,
    /// When, and of which nodes.
    #[command(flatten)]
    pub spec: ScheduleSpecArgs,
    /// JSON output.
    #[command(flatten)]
    pub json: JsonArgs,
}

/// `rpc schedule simulate`.
#[derive(Debug, Args)]
pub struct ScheduleSimulateArgs {
    /// Name of a schedule; or agent, action, and its inputs, also after a name as in `add`
    #[arg(value_name = "NAME | AGENT [ACTION] KEY=VALUE", required = true, num_args = 1..)]
    pub words: Vec<String>,
    /// Option of `add`, without effect here.
    #[arg(long, hide = true)]
    pub replace: bool,
    /// Option of `add`, without effect here.
    #[arg(short, long, hide = true)]
    pub yes: bool,
    /// Expected time of a run [default: as measured, or 1m]
    #[arg(long, value_name = "TIME", value_parser = parse_lifetime)]
    pub takes: Option<Duration>,
    /// When, and of which nodes.
    #[command(flatten)]
    pub spec: ScheduleSpecArgs,
    /// JSON output.
    #[command(flatten)]
    pub json: JsonArgs,
}

/// What determines the times and the nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
#[command(group = ArgGroup::new("timing").args(["every", "cron"]))]
pub struct ScheduleSpecArgs {
    /// Interval, such as 30m: each node once in each interval
    #[arg(long, value_name = "TIME", value_parser = parse_lifetime, help_heading = TIMING_HEADING)]
    pub every: Option<Duration>,
    /// Cron expression: minute, hour, day of month, month, day of week
    #[arg(long, value_name = "EXPR", help_heading = TIMING_HEADING)]
    pub cron: Option<String>,
    /// Time zone of --cron, --window, and --every from 1d on [default: UTC]
    #[arg(long = "tz", value_name = "ZONE", help_heading = TIMING_HEADING)]
    pub time_zone: Option<String>,
    /// When it ends: a date or a duration [default: 1y]
    #[arg(long, value_name = "TIME", value_parser = ScheduleEnd::parse, help_heading = TIMING_HEADING)]
    pub until: Option<ScheduleEnd>,
    /// Spread the starts of --cron over this time
    #[arg(long, value_name = "TIME", value_parser = parse_lifetime, requires = "cron", help_heading = TIMING_HEADING)]
    pub spread: Option<Duration>,
    /// Start only within: 'mon-fri 22:00-04:00'; may be repeated
    #[arg(long = "window", value_name = "WINDOW", help_heading = TIMING_HEADING)]
    pub windows: Vec<String>,
    /// Start nothing between two times, as RFC 3339; may be repeated
    #[arg(long = "blackout", value_name = "FROM/UNTIL[/REASON]", value_parser = BlackoutArg::parse, help_heading = TIMING_HEADING)]
    pub blackouts: Vec<BlackoutArg>,
    /// How late a start may be; 0 for not at all [default: until the next one, and 1h with --cron]
    #[arg(long, value_name = "TIME", value_parser = parse_delay, help_heading = TIMING_HEADING)]
    pub catch_up: Option<Duration>,
    /// Skip nodes that ran within this time
    #[arg(long, value_name = "TIME", value_parser = parse_lifetime, help_heading = ORDER_HEADING)]
    pub skip_if_ran_within: Option<Duration>,
    /// Most nodes that run at once
    #[arg(long, alias = "limit", value_name = "NUMBER", help_heading = ORDER_HEADING)]
    pub concurrency: Option<NonZeroU32>,
    /// Permit pool of Puppet runs
    #[arg(long, value_name = "NAME", help_heading = ORDER_HEADING)]
    pub pool: Option<SubjectName>,
    /// Priority in the permit pool: runs that you start have 0
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true, default_value_t = muster_schedule::DEFAULT_PRIORITY, help_heading = ORDER_HEADING)]
    pub priority: i8,
    /// Time limit of one run
    #[arg(long, value_name = "TIME", value_parser = parse_lifetime, help_heading = ORDER_HEADING)]
    pub timeout: Option<Duration>,
    /// The nodes.
    #[command(flatten)]
    pub conditions: ConditionArgs,
    /// Collective, if not the configured one
    #[arg(short = 'T', long, value_name = "COLLECTIVE", help_heading = HELP_HEADING)]
    pub target: Option<SubjectName>,
}

impl ScheduleSpecArgs {
    /// Whether only the collective is given, so that they describe no schedule.
    pub fn is_only_target(&self) -> bool {
        let priority = muster_schedule::DEFAULT_PRIORITY;
        *self == Self { target: self.target.clone(), priority, ..Self::default() }
    }
}

/// `rpc schedule show`.
#[derive(Debug, Args)]
pub struct ScheduleShowArgs {
    /// Name of the schedule
    pub name: SubjectName,
    /// Plot the expected number of runs in progress
    #[arg(long)]
    pub load: bool,
    /// JSON output.
    #[command(flatten)]
    pub json: JsonArgs,
}

/// One schedule, or all.
#[derive(Debug, Args)]
pub struct ScheduleSelectionArgs {
    /// Name of the schedule
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub name: Option<SubjectName>,
    /// All schedules, also those that are added later
    #[arg(long)]
    pub all: bool,
}

/// `rpc schedule pause`.
#[derive(Debug, Args)]
pub struct SchedulePauseArgs {
    /// Which.
    #[command(flatten)]
    pub selection: ScheduleSelectionArgs,
    /// Why; `rpc schedule list` shows it
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

/// `rpc schedule remove` and `rebalance`.
#[derive(Debug, Args)]
pub struct ScheduleNameArgs {
    /// Name of the schedule
    pub name: SubjectName,
}

/// `rpc schedule history`.
#[derive(Debug, Args)]
pub struct ScheduleHistoryArgs {
    /// Name of the schedule
    pub name: SubjectName,
    /// Only this node
    #[arg(long, value_name = "NODE")]
    pub node: Option<Identity>,
    /// Most entries
    #[arg(long, value_name = "NUMBER", default_value_t = 50)]
    pub count: u64,
    /// JSON output.
    #[command(flatten)]
    pub json: JsonArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScheduleEnd {
    /// Milliseconds since the epoch.
    At(Millis),
    After(Duration),
}

impl Default for ScheduleEnd {
    fn default() -> Self {
        Self::After(Duration::from_hours(365 * 24))
    }
}

impl ScheduleEnd {
    /// Parses a date, which is UTC without a zone, or a duration.
    pub fn parse(text: &str) -> Result<Self, String> {
        let date = parse_date_millis(text).and_then(|millis| Millis::try_from(millis).ok());
        if let Some(millis) = date {
            return Ok(Self::At(millis));
        }
        parse_lifetime(text).map(Self::After).map_err(|_| {
            format!(
                "`{text}` is not a time; use a duration as in 30d, or a date as in 2026-11-26 or 2026-11-26T08:00:00Z"
            )
        })
    }

    /// Milliseconds since the epoch, at this time of the clock.
    pub fn millis(self, now: Millis) -> Millis {
        match self {
            Self::At(millis) => millis,
            Self::After(time) => now.saturating_add(muster_base::duration_millis(time)),
        }
    }
}

/// A blackout on the command line. The schedule checks its times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlackoutArg {
    pub from: String,
    pub until: String,
    pub reason: String,
}

impl BlackoutArg {
    /// Parses `FROM/UNTIL` or `FROM/UNTIL/REASON`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = text.splitn(3, '/');
        match (parts.next(), parts.next(), parts.next()) {
            (Some(from), Some(until), reason) => Ok(Self {
                from: from.to_owned(),
                until: until.to_owned(),
                reason: reason.unwrap_or_default().to_owned(),
            }),
            _ => Err("expected two times: FROM/UNTIL, or FROM/UNTIL/REASON".to_owned()),
        }
    }
}

/// Parses a duration that may be zero.
fn parse_delay(text: &str) -> Result<Duration, String> {
    if text == "0" { Ok(Duration::ZERO) } else { parse_lifetime(text) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{BlackoutArg, ScheduleEnd, parse_delay};

    #[test]
    fn ends_are_dates_or_durations() {
        let millis = |text: &str| ScheduleEnd::parse(text).map(|end| end.millis(1000));
        assert_eq!(millis("1970-01-02"), Ok(86_400_000));
        assert_eq!(millis("2s"), Ok(3000));
        for text in ["", "tomorrow", "5", "-1h"] {
            assert!(millis(text).unwrap_err().contains("is not a time"), "{text}");
        }
    }

    #[test]
    fn blackouts_have_two_times_and_perhaps_a_reason() {
        let blackout = BlackoutArg::parse("a/b/c/d").unwrap();
        assert_eq!((&*blackout.from, &*blackout.until, &*blackout.reason), ("a", "b", "c/d"));
        assert_eq!(BlackoutArg::parse("a/b").unwrap().reason, "");
        assert!(BlackoutArg::parse("a").is_err());
        assert_eq!(parse_delay("0"), Ok(Duration::ZERO));
        assert_eq!(parse_delay("90s"), Ok(Duration::from_secs(90)));
        assert!(parse_delay("").is_err());
    }
}
