//! `rpc puppet ...`: what may be typed.

use std::time::Duration;

use clap::{ArgAction, ArgGroup, Args, Subcommand};
use muster_client::CountOrPercent;
use muster_wire::identity::SubjectName;

use super::filters::FilterArgs;
use super::json::JsonArgs;
use super::seconds::parse_seconds;

const RUN_OPTIONS_HEADING: &str = "The run";
const PACE_HEADING: &str = "Order and pace";
const REQUEST_HEADING: &str = "The request itself";

/// The commands on Puppet.
#[derive(Debug, Subcommand)]
pub enum PuppetCommand {
    /// Show what Puppet does on each node
    #[command(after_help = "Examples:
  rpc puppet status
  rpc puppet status -C apache -j --jq '.nodes[] | select(.enabled | not) | .node'")]
    Status(PuppetQueryArgs),
    /// Count the nodes where Puppet runs, idles, is stopped or disabled
    #[command(after_help = "Examples:
  rpc puppet count
  rpc puppet count -W country=uk -j")]
    Count(PuppetQueryArgs),
    /// Show how the figures of the nodes' last runs are spread
    #[command(after_help = "Examples:
  rpc puppet summary
  rpc puppet summary -C apache -j --jq .distributions.total_time

Each line has one figure of the last run: from the least on the left to the
most on the right, the higher a bar, the more nodes are there. Plain ASCII is
drawn where LC_ALL, LC_CTYPE or LANG say nothing of UTF-8.")]
    Summary(PuppetQueryArgs),
    /// Run Puppet once on all nodes that match, and tell how each run ended
    #[command(after_help = RUNONCE_HELP)]
    Runonce(Box<PuppetRunonceArgs>),
    /// Run Puppet on all nodes that match, never more than N at once
    #[command(override_usage = "rpc puppet runall N [OPTIONS]\n       rpc puppet runall --resume JOB", after_help = RUNALL_HELP)]
    Runall(Box<PuppetRunallArgs>),
    /// Allow Puppet's runs again
    #[command(after_help = "Examples:
  rpc puppet enable -I web1.example.net")]
    Enable(PuppetChangeArgs),
    /// Forbid Puppet's runs, with a message that says why
    #[command(after_help = "Examples:
  rpc puppet disable \"moving to new racks, ann\" -W datacentre=old

Where runs are disabled already the first message stays. Runs that are under way
go on to their end.")]
    Disable(PuppetDisableArgs),
    /// Restart Puppet's daemon when no run is under way
    #[command(after_help = "Examples:
  rpc puppet restart --when-idle -C apache
  rpc puppet restart --when-idle --deadline 600 -I web1.example.net")]
    Restart(PuppetRestartArgs),
}

/// Examples of runonce.
const RUNONCE_HELP: &str = "Examples:
  rpc puppet runonce -I web1.example.net
  rpc puppet runonce -C apache --noop
  rpc puppet runonce -C apache --tags motd,ntp --environment testing
  rpc puppet runonce -W country=uk --concurrency 10 -j

All nodes are asked at once; `rpc puppet runall` asks so many at a time. Told is
how each run ended, not that it was asked for: clean, changed, failed,
failed+changed, compile_failed (there was no catalog), disabled, locked (another
run of the node did not end in time), no_permit, killed, timeout, fenced (it
lost its permit), denied, not_connected, no_answer. Exits with 0 when every run
succeeded, with 2 when one did not, with 3 when no node answered.";

/// Examples of runall.
const RUNALL_HELP: &str = "Examples:
  rpc puppet runall 2 -W /dev_server/
  rpc puppet runall 10 -C apache --canary 2 --max-failures 5%
  rpc puppet runall 10 --batch 25% --noop
  rpc puppet runall 20 --longest-first
  rpc puppet runall --resume 20260131-235959-3f9a2c
  rpc puppet runall 5 --rerun 1800

Each node takes one of N permits before it runs, so never more than N run at
once, whoever else runs Puppet with the same pool. Nodes where Puppet is
disabled are left out, and named. After --canary nodes, and later, it ends early
when more failed than --max-failures says. Ctrl-C asks nobody else, and waits
for those who were asked; a second one ends the command at once.

The rollout is kept as a job. When `rpc` was killed, --resume runs the rest:
nodes that ran already tell how that went, and do not run again. Exits with 0
when every run succeeded, with 2 when one did not or was not asked for.";

/// A question about Puppet that changes nothing.
#[derive(Debug, Args)]
pub struct PuppetQueryArgs {
    /// Whether a document is wanted.
    #[command(flatten)]
    pub json: JsonArgs,
    /// Which nodes.
    #[command(flatten)]
    pub filters: FilterArgs,
}

/// Something that changes nodes, without inputs.
#[derive(Debug, Args)]
pub struct PuppetChangeArgs {
    /// Change many nodes without asking first
    #[arg(short, long)]
    pub yes: bool,
    /// Whether a document is wanted.
    #[command(flatten)]
    pub json: JsonArgs,
    /// Which nodes.
    #[command(flatten)]
    pub filters: FilterArgs,
}

/// `rpc puppet disable`.
#[derive(Debug, Args)]
pub struct PuppetDisableArgs {
    /// Why; who comes upon it is told
    #[arg(value_name = "MESSAGE")]
    pub message: Option<String>,
    /// The rest.
    #[command(flatten)]
    pub change: PuppetChangeArgs,
}

/// `rpc puppet restart`.
#[derive(Debug, Args)]
pub struct PuppetRestartArgs {
    /// Wait until no run is under way; without it a run is not waited for
    #[arg(long)]
    pub when_idle: bool,
    /// How long to wait for that at most
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, requires = "when_idle")]
    pub deadline: Option<Duration>,
    /// The rest.
    #[command(flatten)]
    pub change: PuppetChangeArgs,
}

/// What a run is told.
#[derive(Debug, Clone, Default, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of its own, as people type them"
)]
pub struct PuppetRunArgs {
    /// Only tell what would be done
    #[arg(long, help_heading = RUN_OPTIONS_HEADING)]
    pub noop: bool,
    /// Do it, even where the configuration says noop
    #[arg(long, conflicts_with = "noop", help_heading = RUN_OPTIONS_HEADING)]
    pub no_noop: bool,
    /// Only resources with one of these tags
    #[arg(long, visible_alias = "tag", value_name = "TAG,...", value_delimiter = ',', help_heading = RUN_OPTIONS_HEADING)]
    pub tags: Vec<String>,
    /// No resources with one of these tags
    #[arg(long, value_name = "TAG,...", value_delimiter = ',', help_heading = RUN_OPTIONS_HEADING)]
    pub skip_tags: Vec<String>,
    /// The environment to ask for
    #[arg(long, value_name = "NAME", help_heading = RUN_OPTIONS_HEADING)]
    pub environment: Option<String>,
    /// Wait a random time first
    #[arg(long, help_heading = RUN_OPTIONS_HEADING)]
    pub splay: bool,
    /// Do not, even where the configuration says so
    #[arg(long, conflicts_with = "splay", help_heading = RUN_OPTIONS_HEADING)]
    pub no_splay: bool,
    /// Longest such time
    #[arg(long, value_name = "SECONDS", help_heading = RUN_OPTIONS_HEADING)]
    pub splaylimit: Option<u32>,
    /// Begin at once: no splay
    #[arg(long, conflicts_with = "splay", help_heading = RUN_OPTIONS_HEADING)]
    pub force: bool,
    /// Manage resources outside of their schedules, too
    #[arg(long, action = ArgAction::SetTrue, help_heading = RUN_OPTIONS_HEADING)]
    pub ignoreschedules: bool,
    /// Apply the last catalog instead of asking for one
    #[arg(long, help_heading = RUN_OPTIONS_HEADING)]
    pub use_cached_catalog: bool,
    /// Ask for a catalog, even where the configuration says otherwise
    #[arg(long, conflicts_with = "use_cached_catalog", help_heading = RUN_OPTIONS_HEADING)]
    pub no_use_cached_catalog: bool,
    /// Another server than the configured one; nodes refuse it unless their operator allows it
    #[arg(long, value_name = "HOST[:PORT]", help_heading = RUN_OPTIONS_HEADING)]
    pub server: Option<String>,
    /// The pool of permits [default: the node's, mostly puppet]
    #[arg(long, value_name = "POOL", help_heading = RUN_OPTIONS_HEADING)]
    pub pool: Option<String>,
    /// Who waits for a permit with a higher one comes first
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true, help_heading = RUN_OPTIONS_HEADING)]
    pub priority: Option<i64>,
    /// How long a node may wait for its other runs, and again for its permit
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, help_heading = RUN_OPTIONS_HEADING)]
    pub wait: Option<Duration>,
    /// How long a run may take, waiting among it [default: what the agent's DDL says]
    #[arg(short, long, value_name = "SECONDS", value_parser = parse_seconds, help_heading = RUN_OPTIONS_HEADING)]
    pub timeout: Option<Duration>,
    /// Give up on a node that is silent for so long
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, default_value = "60", help_heading = RUN_OPTIONS_HEADING)]
    pub deadline: Duration,
}

impl PuppetRunArgs {
    /// The inputs of `runonce` that they are, as they would be typed.
    pub fn to_inputs(&self) -> Vec<(String, String)> {
        let switch = |on: bool, off: bool| match (on, off) {
            (true, _) => Some("true".to_owned()),
            (_, true) => Some("false".to_owned()),
            _ => None,
        };
        let list = |words: &[String]| (!words.is_empty()).then(|| words.join(","));
        let number = |number: Option<i64>| number.map(|number| number.to_string());
        // A part of a second is better waited for than not.
        let wait = self.wait.map(|wait| wait.as_secs_f64().ceil());
        let inputs = [
            ("noop", switch(self.noop, self.no_noop)),
            ("tags", list(&self.tags)),
            ("skip_tags", list(&self.skip_tags)),
            ("environment", self.environment.clone()),
            ("splay", switch(self.splay, self.no_splay)),
            ("splaylimit", number(self.splaylimit.map(i64::from))),
            ("force", switch(self.force, false)),
            ("ignoreschedules", switch(self.ignoreschedules, false)),
            (
                "use_cached_catalog",
                switch(self.use_cached_catalog, self.no_use_cached_catalog),
            ),
            ("server", self.server.clone()),
            ("pool", self.pool.clone()),
            ("priority", number(self.priority)),
            ("wait", wait.map(|wait| wait.to_string())),
        ];
        let given = inputs
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?)));
        given.collect()
    }
}

/// In which form results of runs are printed.
#[derive(Debug, Clone, Default, Args)]
#[command(group = ArgGroup::new("form").args(["json", "jq", "jsonl"]).multiple(true))]
pub struct RunOutputArgs {
    /// Whether a document is wanted.
    #[command(flatten)]
    pub json: JsonArgs,
    /// Print a line of JSON for each thing that happens, as it happens
    #[arg(long, conflicts_with_all = ["json", "jq"])]
    pub jsonl: bool,
}

/// `rpc puppet runonce`.
#[derive(Debug, Args)]
pub struct PuppetRunonceArgs {
    /// Never more than so many at once, by permits of the pool [default: as many as the nodes' configuration lets]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = RUN_OPTIONS_HEADING)]
    pub concurrency: Option<u32>,
    /// What the run is told.
    #[command(flatten)]
    pub options: PuppetRunArgs,
    /// Change many nodes without asking first
    #[arg(short, long, help_heading = REQUEST_HEADING)]
    pub yes: bool,
    /// Keep the job under this name
    #[arg(long, value_name = "NAME", help_heading = REQUEST_HEADING)]
    pub job: Option<SubjectName>,
    /// In which form results are printed.
    #[command(flatten)]
    pub form: RunOutputArgs,
    /// Which nodes.
    #[command(flatten)]
    pub filters: FilterArgs,
}

/// `rpc puppet runall`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("order").args(["random", "longest_first"]))]
pub struct PuppetRunallArgs {
    /// How many may run at once
    #[arg(value_name = "N", value_parser = clap::value_parser!(u32).range(1..), required_unless_present = "resume")]
    pub limit: Option<u32>,
    /// In any order, not by name
    #[arg(long, help_heading = PACE_HEADING)]
    pub random: bool,
    /// Nodes first whose last run took longest, so that no long run is left for the end
    #[arg(long, help_heading = PACE_HEADING)]
    pub longest_first: bool,
    /// So many have their turn, and nobody else before all of them have ended
    #[arg(long, value_name = "N|N%", value_parser = parse_nonzero_amount, help_heading = PACE_HEADING)]
    pub batch: Option<CountOrPercent>,
    /// So many have their turn first, and nobody else when more of them fail than --max-failures says
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..), help_heading = PACE_HEADING)]
    pub canary: Option<u32>,
    /// End early when more fail: a part is one of the canaries first, and of all nodes later [default: no canary, any number later]
    #[arg(long, value_name = "N|N%", help_heading = PACE_HEADING)]
    pub max_failures: Option<CountOrPercent>,
    /// Begin anew when all have run, but not before so much time has passed; until Ctrl-C
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, help_heading = PACE_HEADING)]
    pub rerun: Option<Duration>,
    /// Go on with this job: run the nodes that have not run yet
    #[arg(long, value_name = "JOB", help_heading = REQUEST_HEADING, conflicts_with_all = [
        "limit", "order", "batch", "canary", "max_failures", "rerun", "job", "noop", "no_noop", "tags", "skip_tags", "environment", "splay",
        "no_splay", "splaylimit", "force", "ignoreschedules", "use_cached_catalog", "no_use_cached_catalog", "server", "pool", "priority",
        "wait", "nodes", "facts", "classes", "agents", "identities", "mixed", "select", "target",
    ])]
    pub resume: Option<String>,
    /// Run many nodes without asking first
    #[arg(short, long, help_heading = REQUEST_HEADING)]
    pub yes: bool,
    /// Keep the job under this name
    #[arg(long, value_name = "NAME", help_heading = REQUEST_HEADING)]
    pub job: Option<SubjectName>,
    /// What each run is told.
    #[command(flatten)]
    pub options: PuppetRunArgs,
    /// In which form results are printed.
    #[command(flatten)]
    pub form: RunOutputArgs,
    /// Which nodes.
    #[command(flatten)]
    pub filters: FilterArgs,
}

/// An amount of at least something.
fn parse_nonzero_amount(text: &str) -> Result<CountOrPercent, String> {
    let amount: CountOrPercent = text.parse().map_err(|error| format!("{error}"))?;
    if amount.is_zero() {
        return Err("nobody would be asked; give 1 or more".to_owned());
    }
    Ok(amount)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

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

    fn inputs(options: &PuppetRunArgs) -> Vec<String> {
        let pairs = options.to_inputs();
        pairs
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect()
    }

    #[test]
    fn the_articles_command_is_understood_as_it_stands() {
        let args = runall("2 -W /dev_server/").unwrap();
        assert_eq!(
            (args.limit, args.filters.conditions.mixed),
            (Some(2), vec!["/dev_server/".to_owned()])
        );
        assert!(inputs(&args.options).is_empty());
    }

    #[test]
    fn what_a_run_is_told_are_the_agents_inputs() {
        let line = "1 --noop --tags a,b --tags c --skip-tags d --environment testing --no-splay --splaylimit 30 \
                    --ignoreschedules --no-use-cached-catalog --server p:8140 --pool night --priority -3 --wait 1.5";
        assert_eq!(
            inputs(&runall(line).unwrap().options),
            [
                "noop=true",
                "tags=a,b,c",
                "skip_tags=d",
                "environment=testing",
                "splay=false",
                "splaylimit=30",
                "ignoreschedules=true",
                "use_cached_catalog=false",
                "server=p:8140",
                "pool=night",
                "priority=-3",
                "wait=2"
            ]
        );
        assert_eq!(
            inputs(&runall("1 --force --no-noop").unwrap().options),
            ["noop=false", "force=true"]
        );
    }

    #[test]
    fn a_limit_is_one_or_more_and_what_contradicts_itself_is_refused() {
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
        assert_eq!(
            runall("--resume J --deadline 5").unwrap().resume.as_deref(),
            Some("J")
        );
    }
}
