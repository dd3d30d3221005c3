//! Arguments of `rpc job ...`.

use clap::{Args, Subcommand};

use super::json::JsonArgs;

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

Examples:
  rpc job show 20260131-235959-3f9a2c
  rpc job show nightly-patch -j

The exit code is that of the request: 0 if all nodes succeeded, 2 if some
failed, did not reply or did not receive it, 3 if none replied."
    )]
    Show(JobShowArgs),
    /// Show the nodes whose replies differ between two jobs
    #[command(after_help = "Examples:
  rpc job diff 20260130 20260131

Exits with 0 if the replies are equal, with 2 if they differ.")]
    Diff(JobDiffArgs),
    /// Delete jobs
    #[command(after_help = "Examples:
  rpc job forget 20260131-235959-3f9a2c
  rpc job forget --all")]
    Forget(JobForgetArgs),
}

/// `rpc job show`.
#[derive(Debug, Args)]
pub struct JobShowArgs {
    /// Id of the job, a prefix of it, or the job's name
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
