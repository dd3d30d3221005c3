//! Arguments of `rpc find`.

use clap::Args;

use crate::flags::filters::QueryArgs;
use crate::flags::named_nodes::NamedNodeArgs;

pub const AFTER_HELP: &str = "Examples:
  rpc find -W \"environment=development customer=acme mysql::master\"
  rpc find -F \"os.family=Debian\" -A puppetral
  rpc find -I /^web/ -j
  rpc find --exactly-one -F customer=acme -C mysql::master
  rpc find -C apache --template '{{ node }} ansible_user=root'
  rpc find --dm inventory --do file=fleet.json -S \"apache or country=uk\"
  rpc find --verify -C apache        compare the directory with the nodes

Exits with 1 if no node matches, with 2 if --exactly-one finds several or
--verify finds differences.";

/// `rpc find`.
#[derive(Debug, Args)]
pub struct FindArgs {
    /// Nodes as arguments.
    #[command(flatten)]
    pub named: NamedNodeArgs,
    /// JSON output, and the nodes.
    #[command(flatten)]
    pub query: QueryArgs,
    /// Print this template for each node, for example '{{ node }} user=root'; @FILE reads it from a file
    #[arg(long, value_name = "TEXT|@FILE", conflicts_with_all = ["json", "jq"])]
    pub template: Option<String>,
    /// Fail unless exactly one node matches
    #[arg(long = "exactly-one", alias = "one")]
    pub one: bool,
    /// Ask the directory and all nodes, and print the differences only
    #[arg(long, conflicts_with_all = ["one", "template", "method"])]
    pub verify: bool,
}
