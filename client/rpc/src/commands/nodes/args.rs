//! Arguments of `rpc nodes` and `rpc check-registration`.

use clap::Args;
use muster_wire::identity::Identity;

use crate::commands::nodes::node_order::NodeOrder;
use crate::flags::filters::FilterArgs;
use crate::flags::json::JsonArgs;
use crate::flags::list_form::NodeListForm;
use crate::flags::named_nodes::NamedNodeArgs;
use crate::flags::values::parse_fact_name;

pub const NODES_HELP: &str = "Examples:
  rpc nodes
  rpc nodes -C mysql::master --fields os.name,os.release.full
  rpc nodes --sort=-uptime_days --fields uptime_days
  rpc nodes --missing                nodes that have sent no heartbeat for two intervals
  rpc nodes --facets os.family       how many nodes have which value
  rpc nodes --watch -Q \"{'facts.environment': 'production'}\"
  rpc nodes -o name --stale
  rpc nodes -o jsonpath='{.nodes[?@.state==\"missing\"].node}'
  rpc nodes --forget db2.acme.net    a server that was decommissioned

Asks the directory, which also knows nodes that are down. Exits with 1 if no
node matches.";

pub const CHECK_HELP: &str = "Examples:
  rpc check-registration --interval 300
  rpc check-registration -C mysql::master

Prints one line for Nagios, as MCollective's check_mongodb.rb does, and exits
with 0 or 2; with 3 if the directory does not answer.";

/// `rpc nodes`.
#[derive(Debug, Args)]
pub struct NodesArgs {
    /// Nodes as arguments.
    #[command(flatten)]
    pub named: NamedNodeArgs,
    /// JSON output.
    #[command(flatten)]
    pub json: JsonArgs,
    /// The nodes.
    #[command(flatten)]
    pub filters: FilterArgs,
    /// Show these facts, or state.NAME..., in columns, separated by commas
    #[arg(long, value_name = "FACTS", value_delimiter = ',', value_parser = parse_fact_name)]
    pub fields: Vec<String>,
    /// Sort by this fact, or state.NAME...; `-FACT` reverses the order
    #[arg(long, value_name = "FACT", value_parser = NodeOrder::parse, allow_hyphen_values = true, conflicts_with_all = ["facets", "watch", "forget"])]
    pub sort: Option<NodeOrder>,
    /// Show nodes only that have sent no heartbeat for two intervals
    #[arg(long)]
    pub missing: bool,
    /// Show nodes also that were not seen for an hour
    #[arg(long)]
    pub stale: bool,
    /// Count the values of this fact, or state.NAME..., instead
    #[arg(long, value_name = "FACT", value_parser = parse_fact_name, conflicts_with_all = ["fields", "missing", "watch", "output"])]
    pub facets: Option<String>,
    /// Show changes as they happen, until interrupted
    #[arg(long, conflicts_with_all = ["missing", "stale", "json", "jq", "output"])]
    pub watch: bool,
    /// Make the directory leave out these missing nodes until they run again
    #[arg(long, value_name = "NODES", value_delimiter = ',', conflicts_with_all = ["NamedNodeArgs", "FilterArgs", "fields", "missing", "stale", "facets", "watch", "output", "json", "jq"])]
    pub forget: Vec<Identity>,
    /// Form of the output: table, wide, name, json, yaml, or jsonpath=EXPRESSION
    #[arg(short, long, value_name = "FORM", value_parser = NodeListForm::parse, conflicts_with_all = ["json", "jq"])]
    pub output: Option<NodeListForm>,
}

/// `rpc check-registration`.
#[derive(Debug, Args)]
pub struct CheckRegistrationArgs {
    /// Nodes that were not seen for this many seconds are old
    #[arg(short, long, value_name = "SECONDS", default_value_t = 300)]
    pub interval: u64,
    /// The nodes.
    #[command(flatten)]
    pub filters: FilterArgs,
}
