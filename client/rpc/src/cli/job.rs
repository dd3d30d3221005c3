//! `rpc job ...`: what may be typed.

use clap::{Args, Subcommand};

use super::json::JsonArgs;

/// The commands on jobs that were kept.
#[derive(Debug, Subcommand)]
pub enum JobCommand {
    /// List the jobs that are kept, the newest first
    #[command(after_help = "Examples:
  rpc job list
  rpc job list -j")]
    List(JobListArgs),
    /// Show what a job asked, whom, and what they answered
    #[command(
        after_help = "A job is named by its id, by the beginning of one, or by the name that --job
gave it.

Examples:
  rpc job show 20260131-235959-3f9a2c
  rpc job show nightly-patch -j

Exits as the request did: 0 when all succeeded, 2 when some failed, did not
answer or were never asked, 3 when none answered."
    )]
    Show(JobShowArgs),
    /// Show what two jobs' nodes answered differently
    #[command(after_help = "Examples:
  rpc job diff 20260130 20260131

Exits with 0 when they answered the same, with 2 when not.")]
    Diff(JobDiffArgs),
    /// Forget jobs
    #[command(after_help = "Examples:
  rpc job forget 20260131-235959-3f9a2c
  rpc job forget --all")]
    Forget(JobForgetArgs),
}

/// `rpc job list`.
#[derive(Debug, Args)]
pub struct JobListArgs {
    /// Whether a document is wanted.
    #[command(flatten)]
    pub json: JsonArgs,
}

/// `rpc job show`.
#[derive(Debug, Args)]
pub struct JobShowArgs {
    /// The job
    #[arg(value_name = "JOB")]
    pub job: String,
    /// Whether a document is wanted.
    #[command(flatten)]
    pub json: JsonArgs,
}

/// `rpc job diff`.
#[derive(Debug, Args)]
pub struct JobDiffArgs {
    /// The earlier job
    #[arg(value_name = "JOB")]
    pub before: String,
    /// The later job
    #[arg(value_name = "JOB")]
    pub after: String,
    /// Whether a document is wanted.
    #[command(flatten)]
    pub json: JsonArgs,
}

/// `rpc job forget`.
#[derive(Debug, Args)]
pub struct JobForgetArgs {
    /// The jobs
    #[arg(value_name = "JOB", required_unless_present = "all")]
    pub jobs: Vec<String>,
    /// All that nobody is at
    #[arg(long, conflicts_with = "jobs")]
    pub all: bool,
}
