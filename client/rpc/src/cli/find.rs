//! `rpc find`: what may be typed.

use clap::Args;

use super::filters::Filters;

/// Examples.
pub const AFTER: &str = "Examples:
  rpc find -W \"environment=development customer=acme mysql::master\"
  rpc find -F \"os.family=Debian\" -A puppetral
  rpc find -I /^web/ -j

Exits with 1 when there is no such node.";

/// `rpc find`.
#[derive(Debug, Args)]
pub struct Find {
    /// Print one JSON document
    #[arg(short, long)]
    pub json: bool,
    /// Which nodes.
    #[command(flatten)]
    pub filters: Filters,
}
