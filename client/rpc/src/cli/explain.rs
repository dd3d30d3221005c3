//! `rpc explain`: what may be typed.

use clap::Args;

use super::filters::FilterArgs;
use super::json::JsonArgs;

/// Examples.
pub const AFTER_HELP: &str =
    "Nothing is sent, and no node is looked for. What is sensitive is not shown, and
not signed either. With -v the signed bytes are shown, too.

Examples:
  rpc explain service restart service=httpd -C apache
  rpc explain puppetral type=user name=rip -I db1.acme.net -v";

/// `rpc explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The agent
    #[arg(value_name = "AGENT")]
    pub agent: String,
    /// The action, the agent's default when left out; then its inputs
    #[arg(value_name = "[ACTION] KEY=VALUE")]
    pub words: Vec<String>,
    /// Whether a document is wanted.
    #[command(flatten)]
    pub json: JsonArgs,
    /// Which nodes.
    #[command(flatten)]
    pub filters: FilterArgs,
}
