//! Flags of a request that needs the approval of a second user: writing the proposal, and sending the approved request.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::flags::lifetime;

pub const HELP_HEADING: &str = "Approval";

/// Options for requests that a second user must approve.
#[derive(Debug, Args)]
pub struct ApprovalArgs {
    /// Write the request to a new file for a second user to approve, instead of sending it
    #[arg(long = "request-approval", value_name = "FILE", help_heading = HELP_HEADING, conflicts_with_all = ["approve", "file", "json", "jq", "jsonl", "senders", "table", "group", "template"])]
    pub propose: Option<PathBuf>,
    /// How long the proposed request is valid, for example 30m or 2h; at most one day
    #[arg(long = "approval-for", value_name = "TIME", help_heading = HELP_HEADING, value_parser = lifetime::parse_lifetime, default_value = "1h")]
    pub lifetime: Duration,
    /// Send the request that this file approves to the nodes listed in it; `rpc approve` writes the file
    #[arg(long, value_name = "FILE", help_heading = HELP_HEADING, conflicts_with_all = ["nodes", "resume", "retry_failed"])]
    pub approve: Option<PathBuf>,
}

impl Default for ApprovalArgs {
    fn default() -> Self {
        Self { propose: None, lifetime: Duration::from_hours(1), approve: None }
    }
}
