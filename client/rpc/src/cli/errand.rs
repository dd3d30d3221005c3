//! The flags that say how a request is made: whether it is confirmed, answered, followed, and kept as a job.

use clap::Args;
use muster_wire::identity::SubjectName;

const HELP_HEADING: &str = "The request itself";
const JOBS_HEADING: &str = "Jobs";

/// How a request is made.
#[derive(Debug, Clone, Default, Args)]
pub struct RequestFlags {
    /// Change many nodes without asking first
    #[arg(short, long, help_heading = HELP_HEADING)]
    pub yes: bool,
    /// Send the request, and want no answer: it says only that it was sent
    #[arg(long, visible_alias = "nr", help_heading = HELP_HEADING, conflicts_with_all = [
        "form", "jq", "expect", "trace", "batch", "canary", "reply_to",
    ])]
    pub no_results: bool,
    /// Send answers to this name of yours, where `rpc listen` or another program with your credentials waits
    #[arg(long, value_name = "NAME", help_heading = HELP_HEADING, conflicts_with_all = [
        "form", "jq", "expect", "trace", "batch", "canary",
    ])]
    pub reply_to: Option<String>,
    /// Be content with so many answers, and wait for no more
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with_all = ["batch", "canary"], help_heading = HELP_HEADING)]
    pub expect: Option<u32>,
    /// Show how long each stage took, here and on each node
    #[arg(long, help_heading = HELP_HEADING)]
    pub trace: bool,
    /// Keep a job with this name, even if nothing is changed
    #[arg(long, value_name = "NAME", help_heading = JOBS_HEADING)]
    pub job: Option<SubjectName>,
    /// Ask the nodes of this job that failed or did not answer
    #[arg(long, value_name = "JOB", help_heading = JOBS_HEADING, conflicts_with_all = [
        "resume", "nodes", "facts", "classes", "agents", "identities", "mixed", "select",
    ])]
    pub retry_failed: Option<String>,
    /// Go on with this job: ask the nodes that were never asked
    #[arg(long, value_name = "JOB", help_heading = JOBS_HEADING, conflicts_with_all = [
        "job", "expect", "nodes", "facts", "classes", "agents", "identities", "mixed", "select", "one", "limit", "no_results", "reply_to",
    ])]
    pub resume: Option<String>,
}
