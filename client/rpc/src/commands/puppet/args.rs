//! Arguments of `rpc puppet ...`.

use std::time::Duration;

use clap::{ArgAction, ArgGroup, Args, Subcommand};
use muster_contract::puppet::PuppetRunOnceInput;
use muster_wire::identity::SubjectName;

use crate::flags::filters::{FilterArgs, QueryArgs};
use crate::flags::json::JsonArgs;
use crate::flags::request_flags;
use crate::flags::rollout_flags::BatchArgs;
use crate::flags::seconds::{parse_seconds, whole_seconds};

const RUN_OPTIONS_HEADING: &str = "Run options";
const PACE_HEADING: &str = "Order";

/// Commands for Puppet.
#[derive(Debug, Subcommand)]
pub enum PuppetCommand {
    /// Show the state of Puppet on each node
    #[command(after_help = "Examples:
  rpc puppet status
  rpc puppet status -j --jq '.nodes[] | select(.enabled | not) | .node'")]
    Status(QueryArgs),
    /// Count the nodes where Puppet is running, idle, stopped or disabled
    #[command(after_help = "Examples:
  rpc puppet count
  rpc puppet count -W country=uk -j")]
    Count(QueryArgs),
    /// Show the distribution of values from the nodes' last runs
    #[command(after_help = "Examples:
  rpc puppet summary
  rpc puppet summary -C apache -j --jq .distributions.total_time

Each line shows one value of the last run, from the minimum on the left to the
maximum on the right; a higher bar means more nodes. The bars are plain ASCII if
LC_ALL, LC_CTYPE or LANG does not specify UTF-8.")]
    Summary(QueryArgs),
    /// Run Puppet once on all matching nodes, and report the result of each run
    #[command(after_help = RUNONCE_HELP)]
    Runonce(Box<PuppetRunonceArgs>),
    /// Run Puppet on all matching nodes, with at most N concurrent runs
    #[command(override_usage = "rpc puppet runall N [OPTIONS]\n       rpc puppet runall --resume JOB", after_help = RUNALL_HELP)]
    Runall(Box<PuppetRunallArgs>),
    /// Enable Puppet runs
    #[command(after_help = "Examples:
  rpc puppet enable -I web1.example.net
  rpc puppet enable --noop")]
    Enable(PuppetChangeArgs),
    /// Disable Puppet runs, with a message that states the reason
    #[command(after_help = "Examples:
  rpc puppet disable \"moving to new racks, ann\" -W datacentre=old

If runs are already disabled, the first message is kept. Active runs continue.")]
    Disable(PuppetDisableArgs),
    /// Restart Puppet's daemon; with --when-idle, between runs
    #[command(after_help = "Examples:
  rpc puppet restart --when-idle -C apache
  rpc puppet restart --when-idle --deadline 600 -I web1.example.net")]
    Restart(PuppetRestartArgs),
}

const RUNONCE_HELP: &str = "Examples:
  rpc puppet runonce -I web1.example.net
  rpc puppet runonce -C apache --noop
  rpc puppet runonce -C apache --tags motd,ntp --environment testing
  rpc puppet runonce -W country=uk --concurrency 10 -j

Sends the request to all nodes at once; `rpc puppet runall` limits the number of
concurrent runs. Every run takes a permit of the pool: it waits for the limits
of other runs, such as those of a rollout. Reports the result of each run, not
just its start: clean, changed, pending (refreshes are pending: no success),
failed, failed+changed, compile_failed (no catalog), disabled, locked (another
run of the node did not end in time), no_permit, killed, timeout, fenced (lost
its permit), denied, not_connected, no_answer. Exits with 0 if every run
succeeded, with 2 if one did not, with 3 if no node replied.";

const RUNALL_HELP: &str = "Examples:
  rpc puppet runall 2 -W /dev_server/
  rpc puppet runall 10 -C apache --canary 2 --max-failures 5%
  rpc puppet runall 10 --batch 25% --noop
  rpc puppet runall 20 --longest-first
  rpc puppet runall --resume 20260131-235959-3f9a2c
  rpc puppet runall 5 --rerun 1800

Each node acquires one of N permits before its run, so at most N runs are
active, including runs that others started with the same pool; the last line
states the maximum that nodes measured. Nodes where Puppet is disabled are
skipped and listed. The rollout stops early, after the canaries or later, if
more runs failed than --max-failures allows. After Ctrl-C, no further requests
are sent, and the command waits for the active runs; a second Ctrl-C ends it at
once.

The rollout is stored as a job. If `rpc` was killed, --resume runs the rest:
nodes that have already run report that result, and do not run again. Exits with
0 if every run succeeded, with 2 if one did not succeed, was not requested or
was skipped because Puppet is disabled, with 3 if no node replied, with 1 if no
node was found.";

/// A change of nodes without inputs.
#[derive(Debug, Args)]
pub struct PuppetChangeArgs {
    /// Do not ask for confirmation before changing many nodes
    #[arg(short, long)]
    pub yes: bool,
    /// Report what would change, and change nothing
    #[arg(long)]
    pub noop: bool,
    /// JSON output, and the nodes.
    #[command(flatten)]
    pub query: QueryArgs,
}

/// `rpc puppet disable`.
#[derive(Debug, Args)]
pub struct PuppetDisableArgs {
    /// Reason, which is shown to other users
    #[arg(value_name = "MESSAGE")]
    pub message: Option<String>,
    /// Other options.
    #[command(flatten)]
    pub change: PuppetChangeArgs,
}

/// `rpc puppet restart`.
#[derive(Debug, Args)]
pub struct PuppetRestartArgs {
    /// Wait until no run is active; without this flag, do not wait for a run
    #[arg(long)]
    pub when_idle: bool,
    /// Maximum time to wait with --when-idle
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, requires = "when_idle")]
    pub deadline: Option<Duration>,
    /// Other options.
    #[command(flatten)]
    pub change: PuppetChangeArgs,
}

/// Options of a run.
#[derive(Debug, Clone, Default, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate command-line flag")]
pub struct PuppetRunArgs {
    /// Report changes without applying them
    #[arg(long, help_heading = RUN_OPTIONS_HEADING)]
    pub noop: bool,
    /// Apply changes even if the configuration sets noop
    #[arg(long, conflicts_with = "noop", help_heading = RUN_OPTIONS_HEADING)]
    pub no_noop: bool,
    /// Apply only resources with one of these tags
    #[arg(long, visible_alias = "tag", value_name = "TAG,...", value_delimiter = ',', help_heading = RUN_OPTIONS_HEADING)]
    pub tags: Vec<String>,
    /// Skip resources with one of these tags
    #[arg(long, value_name = "TAG,...", value_delimiter = ',', help_heading = RUN_OPTIONS_HEADING)]
    pub skip_tags: Vec<String>,
    /// Puppet environment to request
    #[arg(long, value_name = "NAME", help_heading = RUN_OPTIONS_HEADING)]
    pub environment: Option<String>,
    /// Wait a random time before the run
    #[arg(long, help_heading = RUN_OPTIONS_HEADING)]
    pub splay: bool,
    /// Do not wait, even if the configuration sets splay
    #[arg(long, conflicts_with = "splay", help_heading = RUN_OPTIONS_HEADING)]
    pub no_splay: bool,
    /// Maximum random wait
    #[arg(long, value_name = "SECONDS", help_heading = RUN_OPTIONS_HEADING)]
    pub splaylimit: Option<u32>,
    /// Start at once, without splay
    #[arg(long, conflicts_with = "splay", help_heading = RUN_OPTIONS_HEADING)]
    pub force: bool,
    /// Also apply resources outside their schedules
    #[arg(long, action = ArgAction::SetTrue, help_heading = RUN_OPTIONS_HEADING)]
    pub ignoreschedules: bool,
    /// Apply the last catalog instead of requesting one
    #[arg(long, help_heading = RUN_OPTIONS_HEADING)]
    pub use_cached_catalog: bool,
    /// Request a catalog, even if the configuration says otherwise
    #[arg(long, conflicts_with = "use_cached_catalog", help_heading = RUN_OPTIONS_HEADING)]
    pub no_use_cached_catalog: bool,
    /// Use this server instead of the configured one; nodes refuse it unless their operator allows it
    #[arg(long, value_name = "HOST[:PORT]", help_heading = RUN_OPTIONS_HEADING)]
    pub server: Option<String>,
    /// Pool of permits [default: the node's, usually puppet]
    #[arg(long, value_name = "POOL", help_heading = RUN_OPTIONS_HEADING)]
    pub pool: Option<String>,
    /// Priority for a permit; a higher number is served first
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true, help_heading = RUN_OPTIONS_HEADING)]
    pub priority: Option<i64>,
    /// Maximum time that a node waits for its other runs, and again for its permit
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, help_heading = RUN_OPTIONS_HEADING)]
    pub wait: Option<Duration>,
    /// Time limit of a run, including waits [default: from the agent's DDL]
    #[arg(short, long, value_name = "SECONDS", value_parser = parse_seconds, help_heading = RUN_OPTIONS_HEADING)]
    pub timeout: Option<Duration>,
    /// Give up on a node that sends no message for this long
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, default_value = "60", help_heading = RUN_OPTIONS_HEADING)]
    pub deadline: Duration,
}

impl PuppetRunArgs {
    /// The inputs of `runonce`, with this limit of concurrent runs.
    pub fn to_input(&self, limit: Option<u32>) -> PuppetRunOnceInput {
        let Self {
            noop,
            no_noop,
            tags,
            skip_tags,
            environment,
            splay,
            no_splay,
            splaylimit,
            force,
            ignoreschedules,
            use_cached_catalog,
            no_use_cached_catalog,
            server,
            pool,
            priority,
            wait,
            // These are of the request.
            timeout: _,
            deadline: _,
        } = self;
        let switch = |on: bool, off: bool| on.then_some(true).or(off.then_some(false));
        let list = |words: &[String]| (!words.is_empty()).then(|| words.join(","));
        PuppetRunOnceInput {
            force: switch(*force, false),
            server: server.clone(),
            tags: list(tags),
            skip_tags: list(skip_tags),
            noop: switch(*noop, *no_noop),
            splay: switch(*splay, *no_splay),
            splaylimit: splaylimit.map(i64::from),
            environment: environment.clone(),
            ignoreschedules: switch(*ignoreschedules, false),
            use_cached_catalog: switch(*use_cached_catalog, *no_use_cached_catalog),
            run: None,
            rollout: None,
            pool: pool.clone(),
            limit: limit.map(i64::from),
            priority: *priority,
            wait: wait.map(|wait| whole_seconds(wait).cast_signed()),
            background: None,
        }
    }
}

/// Output format of runs.
#[derive(Debug, Clone, Default, Args)]
#[command(group = ArgGroup::new("form").args(["json", "jq", "jsonl"]).multiple(true))]
pub struct RunOutputArgs {
    /// JSON output.
    #[command(flatten)]
    pub json: JsonArgs,
    /// Print one line of JSON per event, as it happens
    #[arg(long, conflicts_with_all = ["json", "jq"])]
    pub jsonl: bool,
}

/// Options of both kinds of rollouts.
#[derive(Debug, Args)]
pub struct PuppetRolloutArgs {
    /// Options of each run.
    #[command(flatten)]
    pub options: PuppetRunArgs,
    /// Store the job under this name
    #[arg(long, value_name = "NAME", help_heading = request_flags::HELP_HEADING)]
    pub job: Option<SubjectName>,
    /// Output format.
    #[command(flatten)]
    pub form: RunOutputArgs,
    /// The nodes.
    #[command(flatten)]
    pub filters: FilterArgs,
}

/// `rpc puppet runonce`.
#[derive(Debug, Args)]
pub struct PuppetRunonceArgs {
    /// Maximum number of concurrent runs, enforced by permits of the pool [default: from the nodes' configuration]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = RUN_OPTIONS_HEADING)]
    pub concurrency: Option<u32>,
    /// Do not ask for confirmation before changing many nodes
    #[arg(short, long, help_heading = request_flags::HELP_HEADING)]
    pub yes: bool,
    /// Other options.
    #[command(flatten)]
    pub rollout: PuppetRolloutArgs,
}

/// `rpc puppet runall`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("order").args(["random", "longest_first"]))]
pub struct PuppetRunallArgs {
    /// Maximum number of concurrent runs
    #[arg(value_name = "N", value_parser = clap::value_parser!(u32).range(1..), required_unless_present = "resume")]
    pub limit: Option<u32>,
    /// Use random order instead of order by name
    #[arg(long, help_heading = PACE_HEADING)]
    pub random: bool,
    /// Start nodes with the longest last run first, so that no long run starts late
    #[arg(long, help_heading = PACE_HEADING)]
    pub longest_first: bool,
    /// Batches and stop conditions.
    #[command(flatten)]
    pub batches: BatchArgs,
    /// Repeat after all nodes have run, at most once in this time, until Ctrl-C
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, help_heading = PACE_HEADING)]
    pub rerun: Option<Duration>,
    /// Continue this job: run the nodes that have not run yet
    #[arg(long, value_name = "JOB", help_heading = request_flags::HELP_HEADING, conflicts_with_all = [
        "limit", "order", "batch", "canary", "max_failures", "rerun", "job", "noop", "no_noop", "tags", "skip_tags", "environment", "splay",
        "no_splay", "splaylimit", "force", "ignoreschedules", "use_cached_catalog", "no_use_cached_catalog", "server", "pool", "priority",
        "wait", "nodes", "facts", "classes", "agents", "identities", "mixed", "select", "query",
        "target",
    ])]
    pub resume: Option<String>,
    /// Do not ask for confirmation before running on many nodes
    #[arg(short, long, help_heading = request_flags::HELP_HEADING)]
    pub yes: bool,
    /// Other options.
    #[command(flatten)]
    pub rollout: PuppetRolloutArgs,
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use muster_contract::given_inputs;
    use serde_json::{Value, json};

    use super::{PuppetCommand, PuppetRunArgs, PuppetRunallArgs};

    #[derive(Debug, Parser)]
    struct Line {
        #[command(subcommand)]
        puppet: PuppetCommand,
    }

    fn runall(line: &str) -> Option<PuppetRunallArgs> {
        let words = ["rpc", "runall"].into_iter().chain(line.split_whitespace());
        match Line::try_parse_from(words).ok()?.puppet {
            PuppetCommand::Runall(args) => Some(*args),
            _ => None,
        }
    }

    fn inputs(options: &PuppetRunArgs) -> Value {
        given_inputs(&options.to_input(None)).into()
    }

    #[test]
    fn parses_limit_and_mixed_filter() {
        let args = runall("2 -W /dev_server/").unwrap();
        assert_eq!(
            (args.limit, args.rollout.filters.conditions.mixed),
            (Some(2), vec!["/dev_server/".to_owned()])
        );
        assert_eq!(inputs(&args.rollout.options), json!({}));
        assert_eq!(args.rollout.options.to_input(args.limit).limit, Some(2));
    }

    #[test]
    fn run_options_become_inputs_of_the_agent() {
        let line = "1 --noop --tags a,b --tags c --skip-tags d --environment testing --no-splay --splaylimit 30 \
                    --ignoreschedules --no-use-cached-catalog --server p:8140 --pool night --priority -3 --wait 1.5";
        assert_eq!(
            inputs(&runall(line).unwrap().rollout.options),
            json!({
                "noop": true,
                "tags": "a,b,c",
                "skip_tags": "d",
                "environment": "testing",
                "splay": false,
                "splaylimit": 30,
                "ignoreschedules": true,
                "use_cached_catalog": false,
                "server": "p:8140",
                "pool": "night",
                "priority": -3,
                "wait": 2,
            })
        );
        assert_eq!(
            inputs(&runall("1 --force --no-noop").unwrap().rollout.options),
            json!({"noop": false, "force": true})
        );
    }

    #[test]
    fn refuses_invalid_limits_and_conflicting_options() {
        for line in [
            "",
            "0",
            "-1",
            "2.5",
            "x",
            "2 --random --longest-first",
            "2 --noop --no-noop",
            "2 --force --splay",
            "2 --resume J",
            "--resume J --noop",
            "--resume J -C apache",
            "--resume J --random",
            "2 --canary 0",
            "2 --batch 0",
            "2 -j --jsonl",
        ] {
            assert!(runall(line).is_none(), "{line}");
        }
        assert_eq!(runall("--resume J --deadline 5").unwrap().resume.as_deref(), Some("J"));
    }
}
