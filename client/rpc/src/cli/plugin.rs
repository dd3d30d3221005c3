//! `rpc plugin ...`: what may be typed.

use clap::{Args, Subcommand};

use super::json::Json;

/// The commands on agents' schemas.
#[derive(Debug, Subcommand)]
pub enum Plugin {
    /// List the agents that are known here
    #[command(after_help = "Examples:
  rpc plugin list
  rpc plugin list -j | jq -r '.agents[].name'")]
    List(List),
    /// Tell what an agent's actions do, take and answer
    #[command(after_help = "Examples:
  rpc plugin doc puppetral
  rpc plugin doc puppetral --markdown > puppetral.md")]
    Doc(Doc),
}

/// `rpc plugin list`.
#[derive(Debug, Args)]
pub struct List {
    /// Whether a document is wanted.
    #[command(flatten)]
    pub json: Json,
}

/// `rpc plugin doc`.
#[derive(Debug, Args)]
pub struct Doc {
    /// The agent
    #[arg(value_name = "AGENT")]
    pub agent: String,
    /// Print Markdown
    #[arg(long, conflicts_with_all = ["json", "jq"])]
    pub markdown: bool,
    /// Whether the schema itself is wanted.
    #[command(flatten)]
    pub json: Json,
}
