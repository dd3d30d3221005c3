//! Arguments of `rpc job ...`.

use std::time::Duration;

use clap::{Args, Subcommand};

use crate::flags::json::JsonArgs;
use crate::flags::output::OutputArgs;
use crate::flags::seconds::parse_seconds;

/// Commands for stored jobs.
#[derive(Debug, Subcommand)]
pub enum JobCommand {
    /// List the stored jobs, newest first
    #[command(after_help = "Examples:
  rpc job list
  rpc job list -j")]
    List(JsonArgs),
    /// Show a job's request, its nodes and their replies
    #[command(
        after_help = "A job is identified by its id, a prefix of it, or the name given with --job.
A request of another user is identified by its id, or the beginning of it, as
`rpc history` shows it: then the fleet's history answers.

Examples:
  rpc job show 20260131-235959-3f9a2c
  rpc job show nightly-patch -j
  rpc job show 019ac5b2-7c0e             a request of another user

The exit code is that of the request: 0 if all nodes succeeded, 2 if some
failed, did not reply or did not receive it, 3 if none replied."
    )]
    Show(JobShowArgs),
    /// Show the nodes whose replies differ between two jobs
    #[command(after_help = "Examples:
  rpc job diff 20260130 20260131

Exits with 0 if the replies are equal, with 2 if they differ.")]
    Diff(JobDiffArgs),
    /// Undo a job's changes on the nodes that it changed
    #[command(after_help = "Examples:
  rpc job undo 20260131-235959-3f9a2c --noop  show what would be undone
  rpc job undo 20260131-235959-3f9a2c
  rpc job undo motd                           the newest job with this name
  rpc job undo motd --force                   even where it was changed since
  rpc job undo 019ac5b2-7c0e                  a request of another user

Nodes keep what `puppetral do` replaced: the values of properties, and the
content of files up to 8 MiB, for the last 1000 changes. Each is restored as an
ordinary change, which is a job of its own and can be undone as well. Other
actions cannot be undone.

A node refuses to undo what was changed since then, and shows the difference.
What a node cannot restore, it names with the reason; it restores the rest.")]
    Undo(Box<JobUndoArgs>),
    /// Delete jobs
    #[command(after_help = "Examples:
  rpc job forget 20260131-235959-3f9a2c
  rpc job forget --all")]
    Forget(JobForgetArgs),
}

/// `rpc job show`.
#[derive(Debug, Args)]
pub struct JobShowArgs {
    /// Job: its id, a prefix of it, or its name; or the id of a request
    #[arg(value_name = "JOB")]
    pub job: String,
    /// JSON output.
    #[command(flatten)]
    pub json: JsonArgs,
}

/// `rpc job diff`.
#[derive(Debug, Args)]
pub struct JobDiffArgs {
    /// Earlier job
    #[arg(value_name = "JOB")]
    pub before: String,
    /// Later job
    #[arg(value_name = "JOB")]
    pub after: String,
    /// JSON output.
    #[command(flatten)]
    pub json: JsonArgs,
}

/// `rpc job undo`.
#[derive(Debug, Args)]
pub struct JobUndoArgs {
    /// Job: its id, a prefix of it, or its name; or the id of a request
    #[arg(value_name = "JOB")]
    pub job: String,
    /// Report what would change, and change nothing
    #[arg(long)]
    pub noop: bool,
    /// Undo even what was changed since, and remove what was added to created directories
    #[arg(long)]
    pub force: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub yes: bool,
    /// Time limit of the action on a node, in seconds [default: from the agent's DDL]
    #[arg(short, long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub timeout: Option<Duration>,
    /// Output format.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// `rpc job forget`.
#[derive(Debug, Args)]
pub struct JobForgetArgs {
    /// Jobs to delete
    #[arg(value_name = "JOB", required_unless_present = "all")]
    pub jobs: Vec<String>,
    /// Delete all jobs that are not running
    #[arg(long, conflicts_with = "jobs")]
    pub all: bool,
}
