//! Arguments of `rpc facts`.

use clap::Args;

use crate::flags::filters::QueryArgs;
use crate::flags::values::parse_fact_name;

pub const AFTER_HELP: &str = "Examples:
  rpc facts                          the names of all facts
  rpc facts country
  rpc facts os.family -C apache -n   also list the nodes with each value
  rpc facts kernel.release -r        rarest value first
  rpc facts country -j";

/// `rpc facts`.
#[derive(Debug, Args)]
pub struct FactsArgs {
    /// Name of the fact; dots select nested values, for example os.family [default: list the names of all facts]
    #[arg(value_name = "FACT", value_parser = parse_fact_name)]
    pub fact: Option<String>,
    /// JSON output, and the nodes.
    #[command(flatten)]
    pub query: QueryArgs,
    /// Print a table: value, count and, with -n, the nodes
    #[arg(long, conflicts_with_all = ["json", "jq"], requires = "fact")]
    pub table: bool,
    /// List the nodes with each value, as -v does
    #[arg(short = 'n', long, requires = "fact")]
    pub show_nodes: bool,
    /// Show the rarest value first
    #[arg(short, long, requires = "fact")]
    pub reverse: bool,
}
