//! Arguments of `rpc config ...`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::flags::filters::{FilterArgs, QueryArgs};
use crate::flags::json::JsonArgs;
use crate::flags::rollout_flags::PaceArgs;

const CONFIRM_SECONDS: std::ops::RangeInclusive<u64> = 10..=3600;

/// Commands for the files of daemons: policies, facts, checks, settings.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Replace the files of daemons, and confirm that the nodes still answer
    #[command(
        override_usage = "rpc config deploy DIR [OPTIONS]",
        after_help = "Examples:
  rpc config deploy site/ --noop         show what would change
  rpc config deploy site/ --canary 2     two nodes first, then all others
  rpc config deploy site/ -C web --batch 10% --max-failures 0
  rpc config deploy site/ -I db1.acme.net --confirm-within 300

DIR has the files as a node has them in /etc/muster:
  policies/AGENT.policy, policies/groups   who may do what
  facts.d/NAME                             external facts, also programs
  checks.d/NAME.toml                       schedules of checks
  conf.d/NAME.toml                         settings of rpcd
  ca.pem                                   the authority of the broker
Files of the last deployment that DIR does not have are removed; all other files
of a node stay. Hidden files of DIR are left out.

Each node checks the result as `rpcd --check` does, and refuses it with the
reason if the daemon could not use it. Otherwise it reads the files, or restarts
for settings, and waits for the confirmation, which this command sends when the
node answers again. Without it, the node restores its earlier files by itself: a
policy that denies you, or an address at which there is no broker, lasts a
minute."
    )]
    Deploy(Box<ConfigDeployArgs>),
    /// Restore the files or the program from before the last deployment
    #[command(after_help = "Examples:
  rpc config revert -I db1.acme.net
  rpc config revert --all --canary 1

Undoes the last deployment or upgrade, and must be confirmed like one. A second
`rpc config revert` brings it back.")]
    Revert(Box<ConfigRevertArgs>),
    /// Show the last deployment of nodes, the program that runs, and what others have changed since
    #[command(after_help = "Examples:
  rpc config status
  rpc config status -C web -j --jq '.nodes[] | [.node, .state, .modified]'

STATE is none, pending (the node waits for the confirmation), confirmed, or
reverted (it restored the earlier files; the reason is shown).")]
    Status(Box<QueryArgs>),
}

/// `rpc config deploy`.
#[derive(Debug, Args)]
pub struct ConfigDeployArgs {
    /// Directory with the files
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Show what would change, and change nothing
    #[arg(long)]
    pub noop: bool,
    /// Confirmation and nodes.
    #[command(flatten)]
    pub change: ConfigChangeArgs,
}

/// `rpc config revert`.
#[derive(Debug, Args)]
pub struct ConfigRevertArgs {
    /// On all nodes; required without a filter
    #[arg(long)]
    pub all: bool,
    /// Confirmation and nodes.
    #[command(flatten)]
    pub change: ConfigChangeArgs,
}

/// Options of commands that replace files.
#[derive(Debug, Args)]
pub struct ConfigChangeArgs {
    /// Seconds until a node undoes the change without a confirmation
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(CONFIRM_SECONDS), default_value_t = 60)]
    pub confirm_within: u64,
    /// Do not ask for confirmation before changing many nodes
    #[arg(short, long)]
    pub yes: bool,
    /// JSON output.
    #[command(flatten)]
    pub json: JsonArgs,
    /// Limits and batches.
    #[command(flatten)]
    pub pace: PaceArgs,
    /// The nodes.
    #[command(flatten)]
    pub filters: FilterArgs,
}

impl ConfigChangeArgs {
    /// Time until a node restores the earlier files without a confirmation.
    pub fn confirm(&self) -> Duration {
        Duration::from_secs(self.confirm_within)
    }
}
