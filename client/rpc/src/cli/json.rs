//! The flags of every command that can print one JSON document.

use clap::Args;

/// Whether a document is wanted, and what of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct JsonArgs {
    /// Print one JSON document
    #[arg(short, long)]
    pub json: bool,
    /// Print what this jq expression makes of the JSON document
    #[arg(long, value_name = "EXPR")]
    pub jq: Option<String>,
}
