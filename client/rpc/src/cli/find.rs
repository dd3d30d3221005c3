//! `rpc find`: what may be typed.

use clap::Args;

use super::filters::FilterArgs;
use super::json::JsonArgs;

/// Examples.
pub const AFTER_HELP: &str = "Examples:
  rpc find -W \"environment=development customer=acme mysql::master\"
  rpc find -F \"os.family=Debian\" -A puppetral
  rpc find -I /^web/ -j
  rpc find -C apache --template '{{ node }} ansible_user=root'
  rpc find --dm inventory --do file=fleet.json -S \"apache or country=uk\"

Exits with 1 when there is no such node.";

/// `rpc find`.
#[derive(Debug, Args)]
pub struct FindArgs {
    /// Whether a document is wanted.
    #[command(flatten)]
    pub json: JsonArgs,
    /// Print this for each node, as in '{{ node }} user=root'; @FILE reads a file
    #[arg(long, value_name = "TEXT|@FILE", conflicts_with_all = ["json", "jq"])]
    pub template: Option<String>,
    /// Which nodes.
    #[command(flatten)]
    pub filters: FilterArgs,
}
