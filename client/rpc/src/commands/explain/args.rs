//! Arguments of `rpc explain`.

use clap::Args;

use crate::flags::filters::QueryArgs;

pub const USAGE: &str = "rpc explain AGENT [ACTION] [KEY=VALUE]... [OPTIONS]";

pub const AFTER_HELP: &str =
    "Sends nothing and discovers no nodes. Sensitive inputs are neither shown nor
signed. With -v, also shows the signed bytes.

Examples:
  rpc explain service restart service=httpd -C apache
  rpc explain puppetral type=user name=rip -I db1.acme.net -v";

/// `rpc explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// Name of the agent
    #[arg(value_name = "AGENT")]
    pub agent: String,
    /// Action [default: the agent's default action], then its inputs
    #[arg(value_name = "[ACTION] KEY=VALUE")]
    pub words: Vec<String>,
    /// JSON output, and the nodes.
    #[command(flatten)]
    pub query: QueryArgs,
}
