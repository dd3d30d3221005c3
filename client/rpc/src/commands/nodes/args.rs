//! Arguments of `rpc nodes`, `rpc node` and `rpc check-registration`.

use clap::Args;
use muster_wire::identity::Identity;

use crate::commands::nodes::add::args::NodeCommand;
use crate::commands::nodes::node_order::NodeOrder;
use crate::flags::filters::FilterArgs;
use crate::flags::json::JsonArgs;
use crate::flags::list_form::NodeListForm;
use crate::flags::named_nodes::NamedNodeArgs;
use crate::flags::point_in_time::PointInTime;
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

pub const NODE_HELP: &str = "Examples:
  rpc node db1.acme.net              what the node published last, also if it is down
  rpc node db1.acme.net --verify     check the node's own signature, too
  rpc node db1.acme.net --history    what changed, and when
  rpc node db1.acme.net --diff 2d now
  rpc node db1.acme.net -j --jq .facts.os.family
  rpc node add web1.acme.net --ssh   make a machine a node";

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

/// `rpc node`: a node, or what to do with machines.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct NodeCommandArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: Option<NodeCommand>,
    /// The node to show.
    #[command(flatten)]
    pub shown: Option<NodeArgs>,
}

/// `rpc node NODE`.
#[derive(Debug, Args)]
pub struct NodeArgs {
    /// Name of the node
    #[arg(value_name = "NODE")]
    pub node: Identity,
    /// Verify that the node itself signed what the directory says
    #[arg(long)]
    pub verify: bool,
    /// Show what changed on the node, and when: facts, classes, agents and versions
    #[arg(long, conflicts_with_all = ["verify", "diff"])]
    pub history: bool,
    /// Show what differs between two times: now, a time ago as in 2h, or a date
    #[arg(long, num_args = 2, value_names = ["FROM", "UNTIL"], value_parser = PointInTime::parse, conflicts_with = "verify")]
    pub diff: Option<Vec<PointInTime>>,
    /// JSON output.
    #[command(flatten)]
    pub json: JsonArgs,
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
