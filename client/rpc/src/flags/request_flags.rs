//! Flags of a request: confirmation, replies, tracing, and storage as a job.

use clap::Args;
use muster_ddl::AttributeChecking;
use muster_wire::identity::SubjectName;

pub const HELP_HEADING: &str = "Request options";

/// Options of a request.
#[derive(Debug, Clone, Default, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate command-line flag")]
pub struct RequestFlags {
    /// Do not ask for confirmation before changing many nodes
    #[arg(short, long, help_heading = HELP_HEADING)]
    pub yes: bool,
    /// Report what would change, and change nothing
    #[arg(long, help_heading = HELP_HEADING)]
    pub noop: bool,
    /// Send the request, print its id and exit; nodes do not reply
    #[arg(long, visible_alias = "nr", help_heading = HELP_HEADING, conflicts_with_all = [
        "form", "jq", "expect", "trace", "batch", "canary", "reply_to",
    ])]
    pub no_results: bool,
    /// Send replies to this name, where `rpc listen` or another program with your credentials receives them
    #[arg(long, value_name = "NAME", help_heading = HELP_HEADING, conflicts_with_all = [
        "form", "jq", "expect", "trace", "batch", "canary",
    ])]
    pub reply_to: Option<String>,
    /// Stop waiting after N replies
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with_all = ["batch", "canary"], help_heading = HELP_HEADING)]
    pub expect: Option<u32>,
    /// Send resource types, properties and values that this version of rpc does not know; nodes check them
    #[arg(long, help_heading = HELP_HEADING)]
    pub skip_input_check: bool,
    /// Show the duration of each stage, on the client and on each node
    #[arg(long, help_heading = HELP_HEADING)]
    pub trace: bool,
    /// Store a job with this name, even if the request changes nothing
    #[arg(long, value_name = "NAME", help_heading = HELP_HEADING)]
    pub job: Option<SubjectName>,
    /// Repeat this job's request on the nodes that failed or did not reply
    #[arg(long, value_name = "JOB", help_heading = HELP_HEADING, conflicts_with_all = [
        "resume", "nodes", "facts", "classes", "agents", "identities", "mixed", "select", "query",
    ])]
    pub retry_failed: Option<String>,
    /// Continue this job: send its request to the nodes that have not received it
    #[arg(long, value_name = "JOB", help_heading = HELP_HEADING, conflicts_with_all = [
        "job", "expect", "nodes", "facts", "classes", "agents", "identities", "mixed", "select", "query", "one", "limit", "no_results", "reply_to",
    ])]
    pub resume: Option<String>,
}

impl RequestFlags {
    /// Whether attributes of resources are checked before the request is sent.
    pub fn attribute_checking(&self) -> AttributeChecking {
        if self.skip_input_check { AttributeChecking::Off } else { AttributeChecking::Strict }
    }
}
