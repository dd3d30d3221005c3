//! Arguments of `rpc release ...`.

use clap::{Args, Subcommand};
use muster_wire::identity::SubjectName;

use crate::flags::filters::{ConditionArgs, FilterArgs, QueryArgs};
use crate::flags::json::JsonArgs;
use crate::flags::output::OutputArgs;
use crate::flags::rollout_flags::PaceArgs;

/// Commands for releases.
#[derive(Debug, Subcommand)]
pub enum ReleaseCommand {
    /// Give the newest catalogs of an environment a name
    #[command(
        visible_alias = "build",
        after_help = "Examples:
  rpc release create --environment production
  rpc release create --environment production --code 4f2c1e
  rpc release create --environment production -C web --name web-july

Waits until all nodes of the environment are compiled. Nodes that failed to
compile are listed and left out: they keep the catalog that they have. No node
applies a release before it is promoted."
    )]
    Create(ReleaseCreateArgs),
    /// List the releases
    #[command(after_help = "Examples:
  rpc release list
  rpc release list -j --jq '.releases[0].name'")]
    List(JsonArgs),
    /// Show what a release changes, node by node, with equal changes once
    #[command(after_help = "Examples:
  rpc release diff r42              compared with what the nodes have now
  rpc release diff r42 --from r41   compared with another release")]
    Diff(ReleaseDiffArgs),
    /// Ask nodes what a release would change on them
    #[command(after_help = "Examples:
  rpc release plan r42 -C web

Each node compares the catalog of the release with its own state and changes
nothing. The release need not be promoted.")]
    Plan(ReleasePlanArgs),
    /// Give nodes the catalogs of a release, and apply them
    #[command(after_help = "Examples:
  rpc release promote r42 -C web --canary 5 --batch 10% --max-failures 2%
  rpc release promote r42 --to 'country=uk and not database'
  rpc release promote r42 --all --window 'sat 02:00-04:00' --time-zone Europe/Berlin
  rpc release promote r42 --all --no-apply

From then on a node applies this catalog and no other. By itself it only
reports what it would change, except in the windows given here; --always
means at all times. Nodes that are away find the promotion when they return,
unless the rollout stopped or every run failed.")]
    Promote(ReleasePromoteArgs),
    /// Return to an earlier release
    #[command(after_help = "Examples:
  rpc release rollback r41 -C web

The last two catalogs of a node are on its disk with their files. So a return
to the release before needs nothing but the request, not even the compiler.")]
    Rollback(ReleasePromoteArgs),
    /// Show which release each node has, and how its last run ended
    #[command(after_help = "Examples:
  rpc release status
  rpc release status -C web -j --jq '.nodes[] | select(.release != \"r42\").node'")]
    Status(QueryArgs),
}

/// `rpc release create`.
#[derive(Debug, Args)]
pub struct ReleaseCreateArgs {
    /// The environment
    #[arg(long, value_name = "NAME")]
    pub environment: String,
    /// Compile this commit, branch or tag first
    #[arg(long, value_name = "COMMIT")]
    pub code: Option<String>,
    /// The name of the release [default: the next of r1, r2, ...]
    #[arg(long, value_name = "NAME")]
    pub name: Option<SubjectName>,
    /// Do not wait for nodes that are still to be compiled; they have their last catalogs in the release
    #[arg(long)]
    pub no_wait: bool,
    /// Which nodes of the environment.
    #[command(flatten)]
    pub conditions: ConditionArgs,
    /// JSON output.
    #[command(flatten)]
    pub json: JsonArgs,
}

/// `rpc release diff`.
#[derive(Debug, Args)]
pub struct ReleaseDiffArgs {
    /// The release
    pub name: SubjectName,
    /// Compare with this release [default: what the nodes have now]
    #[arg(long, value_name = "RELEASE")]
    pub from: Option<SubjectName>,
    /// JSON output.
    #[command(flatten)]
    pub json: JsonArgs,
}

/// `rpc release plan`.
#[derive(Debug, Args)]
pub struct ReleasePlanArgs {
    /// The release
    pub name: SubjectName,
    /// Which nodes, and JSON output.
    #[command(flatten)]
    pub query: QueryArgs,
}

/// `rpc release promote` and `rpc release rollback`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate command-line flag")]
pub struct ReleasePromoteArgs {
    /// The release
    pub name: SubjectName,
    /// All nodes of the release
    #[arg(long)]
    pub all: bool,
    /// Nodes that this expression selects, like -S
    #[arg(long, value_name = "EXPR")]
    pub to: Option<String>,
    /// Only move the nodes to the release; they apply it by themselves, in its windows
    #[arg(long)]
    pub no_apply: bool,
    /// Nodes may apply the release by themselves in this weekly window: `mon-fri 22:00-04:00`
    #[arg(long = "window", value_name = "DAYS TIMES")]
    pub windows: Vec<String>,
    /// The time zone of the windows [default: UTC]
    #[arg(long, value_name = "ZONE", requires = "windows")]
    pub time_zone: Option<String>,
    /// Nodes may apply the release by themselves at all times
    #[arg(long, conflicts_with = "windows")]
    pub always: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub yes: bool,
    /// Limits and batches.
    #[command(flatten)]
    pub pace: PaceArgs,
    /// Output format.
    #[command(flatten)]
    pub output: OutputArgs,
    /// The nodes.
    #[command(flatten)]
    pub filters: FilterArgs,
}
