//! The flags of a request that takes a second person: who proposes it, and who asks it once it is approved.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::organisation::lifetime;

const HELP_HEADING: &str = "Approval";

/// How a second person comes in.
#[derive(Debug, Args)]
pub struct ApprovalArgs {
    /// Ask nobody, but write what would be asked into a new file, for a second person to approve
    #[arg(long = "request-approval", value_name = "FILE", help_heading = HELP_HEADING, conflicts_with_all = ["approve", "file", "json", "jq", "jsonl", "senders", "table", "group", "template"])]
    pub propose: Option<PathBuf>,
    /// How long it may be asked after that, as in 30m or 2h; at most a day
    #[arg(long = "approval-for", value_name = "TIME", help_heading = HELP_HEADING, value_parser = lifetime::parse_lifetime, default_value = "1h")]
    pub lifetime: Duration,
    /// Ask what this file approves, of the nodes that it names; `rpc approve` writes it
    #[arg(long, value_name = "FILE", help_heading = HELP_HEADING, conflicts_with_all = ["nodes", "resume", "retry_failed"])]
    pub approve: Option<PathBuf>,
}
