//! Flags of every command that can print a JSON document.

use clap::Args;

/// Options for output as a JSON document.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct JsonArgs {
    /// Print one JSON document
    #[arg(short, long)]
    pub json: bool,
    /// Print the result of this jq expression on the JSON document
    #[arg(long, value_name = "EXPR")]
    pub jq: Option<String>,
}
