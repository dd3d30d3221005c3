//! `rpc facts`: what may be typed.

use clap::Args;
use muster_wire::state::FactPath;

use super::filters::FilterArgs;
use super::json::JsonArgs;

/// Examples.
pub const AFTER_HELP: &str = "Examples:
  rpc facts country
  rpc facts os.family -C apache -n   also name the nodes that have each value
  rpc facts kernel.release -r        the rarest first
  rpc facts country -j";

/// `rpc facts`.
#[derive(Debug, Args)]
pub struct FactsArgs {
    /// Name of the fact; dots lead into structured ones, as in os.family
    #[arg(value_name = "FACT", value_parser = parse_fact_name)]
    pub fact: String,
    /// Whether a document is wanted.
    #[command(flatten)]
    pub json: JsonArgs,
    /// Print a table: value, count, and the nodes if they are wanted
    #[arg(long, conflicts_with_all = ["json", "jq"])]
    pub table: bool,
    /// Name the nodes that have each value, as -v does
    #[arg(short = 'n', long)]
    pub show_nodes: bool,
    /// The rarest value first
    #[arg(short, long)]
    pub reverse: bool,
    /// Which nodes.
    #[command(flatten)]
    pub filters: FilterArgs,
}

fn parse_fact_name(text: &str) -> Result<String, String> {
    FactPath::parse(text)
        .map(|_| text.to_owned())
        .map_err(|error| error.to_string())
}
