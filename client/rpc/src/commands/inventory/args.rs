//! Arguments of `rpc inventory`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use muster_filter::state::FactPath;
use muster_operations::ansible::AnsibleVariable;
use muster_wire::identity::Identity;

use crate::flags::filters::QueryArgs;

pub const USAGE: &str = "rpc inventory NODE [OPTIONS]
       rpc inventory --collectives | --map FILE [OPTIONS]
       rpc inventory [NODE] --template TEXT|@FILE [OPTIONS]
       rpc inventory --export FILE [--update] [--with-state] [OPTIONS]
       rpc inventory --validate FILE
       rpc inventory --ansible --list | --host NODE [OPTIONS]";

pub const AFTER_HELP: &str = "Examples:
  rpc inventory dev1.example.net              as `rpc node NODE --live`
  rpc inventory --collectives -C apache
  rpc inventory --map fleet.dot && dot -Tsvg fleet.dot > fleet.svg
  rpc inventory -C apache --template '{{ node }} {{ facts.os.family }}'
  rpc inventory --export fleet.json           all data of all nodes
  rpc inventory --export fleet.json --update  overwrite, keep its groups
  rpc inventory --validate fleet.yaml
  rpc inventory --ansible --list --group-by os.family -C apache

`--dm inventory --do file=fleet.json` selects nodes from such a file. Nodes that
do not reply are missing from it, and the export exits with 2. `--ansible` is
for a script of two lines, which Ansible runs as its inventory.";

/// Options of discovery, which an inventory of the directory does not accept.
const DISCOVERY_FLAGS: [&str; 4] = ["nodes", "method", "options", "discovery_timeout"];

/// Flags that select nodes, which a command for a single node does not accept.
const NODE_SELECTION_FLAGS: [&str; 10] = [
    "facts",
    "classes",
    "agents",
    "identities",
    "mixed",
    "select",
    "query",
    "nodes",
    "method",
    "options",
];

/// `rpc inventory`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").args(["node", "collectives", "map", "export", "validate", "ansible"]))]
#[command(group = ArgGroup::new("anything").args(["node", "collectives", "map", "export", "validate", "template", "ansible"]).multiple(true).required(true))]
pub struct InventoryArgs {
    /// Name of the node: shows it as `rpc node NODE --live` does
    #[arg(value_name = "NODE", conflicts_with_all = NODE_SELECTION_FLAGS)]
    pub node: Option<Identity>,
    /// Count the nodes in each collective
    #[arg(long, visible_alias = "list-collectives", alias = "lc")]
    pub collectives: bool,
    /// Write a graph of the nodes in each collective, in DOT format; - is standard output
    #[arg(
        long,
        visible_alias = "collective-graph",
        alias = "cg",
        value_name = "FILE",
        conflicts_with_all = ["json", "jq"]
    )]
    pub map: Option<PathBuf>,
    /// Print this template for each node, for example '{{ node }} {{ facts.country }}'; @FILE reads it from a file
    #[arg(long, value_name = "TEXT|@FILE", conflicts_with_all = ["collectives", "map", "export", "validate", "json", "jq"])]
    pub template: Option<String>,
    /// Write the data of all matching nodes to this file, for `--dm inventory`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "jq"])]
    pub export: Option<PathBuf>,
    /// Overwrite an existing inventory, and keep its groups
    #[arg(long, requires = "export")]
    pub update: bool,
    /// Also write the state of subsystems, for which Choria's format has no key
    #[arg(long, requires = "export")]
    pub with_state: bool,
    /// Check an inventory file, without sending a request
    #[arg(long, value_name = "FILE", conflicts_with_all = NODE_SELECTION_FLAGS.into_iter().chain(["json", "jq"]))]
    pub validate: Option<PathBuf>,
    /// An inventory for Ansible.
    #[command(flatten)]
    pub ansible: AnsibleArgs,
    /// JSON output, and the nodes.
    #[command(flatten)]
    pub query: QueryArgs,
}

/// `rpc inventory --ansible`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("ansible_form").args(["list", "host"]))]
pub struct AnsibleArgs {
    /// Print an inventory for Ansible, from the directory
    #[arg(long, requires = "ansible_form", conflicts_with_all = DISCOVERY_FLAGS.into_iter().chain(["template", "json", "jq"]))]
    pub ansible: bool,
    /// All groups, hosts and variables
    #[arg(long, requires = "ansible")]
    pub list: bool,
    /// The variables of one node
    #[arg(long, value_name = "NODE", requires = "ansible")]
    pub host: Option<Identity>,
    /// Make a group of each value of this fact; may be repeated
    #[arg(long, value_name = "FACT", requires = "ansible", value_parser = FactPath::parse)]
    pub group_by: Vec<FactPath>,
    /// Set this variable of each host from a fact; may be repeated
    #[arg(long, value_name = "NAME=FACT", requires = "ansible", value_parser = AnsibleVariable::parse)]
    pub var: Vec<AnsibleVariable>,
}
