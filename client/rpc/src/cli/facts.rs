//! `rpc facts`: what may be typed.

use clap::Args;
use muster_wire::state::FactPath;

use super::filters::Filters;

/// Examples.
pub const AFTER: &str = "Examples:
  rpc facts country
  rpc facts os.family -C apache -v   also name the nodes under each value
  rpc facts country -j";

/// `rpc facts`.
#[derive(Debug, Args)]
pub struct Facts {
    /// Name of the fact; dots lead into structured ones, as in os.family
    #[arg(value_name = "FACT", value_parser = fact)]
    pub fact: String,
    /// Print one JSON document
    #[arg(short, long)]
    pub json: bool,
    /// Which nodes.
    #[command(flatten)]
    pub filters: Filters,
}

fn fact(text: &str) -> Result<String, String> {
    FactPath::parse(text)
        .map(|_| text.to_owned())
        .map_err(|error| error.to_string())
}
