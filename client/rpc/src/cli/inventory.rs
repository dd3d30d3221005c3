//! `rpc inventory`: what may be typed.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use muster_wire::identity::Identity;

use super::filters::FilterArgs;
use super::json::JsonArgs;

/// How the command is used.
pub const USAGE: &str = "rpc inventory NODE [OPTIONS]
       rpc inventory --collectives | --map FILE [OPTIONS]
       rpc inventory [NODE] --template TEXT|@FILE [OPTIONS]
       rpc inventory --export FILE [--update] [OPTIONS]
       rpc inventory --validate FILE";

/// Examples.
pub const AFTER_HELP: &str = "Examples:
  rpc inventory dev1.example.net
  rpc inventory dev1.example.net -j | jq .inventory.facts
  rpc inventory --collectives -C apache
  rpc inventory --map fleet.dot && dot -Tsvg fleet.dot > fleet.svg
  rpc inventory -C apache --template '{{ node }} {{ facts.os.family }}'
  rpc inventory --export fleet.json           all that all nodes tell
  rpc inventory --export fleet.json --update  again; keeps its groups
  rpc inventory --validate fleet.yaml

Commands find nodes in such a file with `--dm inventory --do file=fleet.json`.
Nodes that do not answer are not in it, and the export exits with 2.";

/// Flags that have no meaning for one node, which is named.
const NODE_SELECTION_FLAGS: [&str; 9] = [
    "facts",
    "classes",
    "agents",
    "identities",
    "mixed",
    "select",
    "nodes",
    "method",
    "options",
];

/// `rpc inventory`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").args(["node", "collectives", "map", "export", "validate"]))]
#[command(group = ArgGroup::new("anything").args(["node", "collectives", "map", "export", "validate", "template"]).multiple(true).required(true))]
pub struct InventoryArgs {
    /// The node
    #[arg(value_name = "NODE", conflicts_with_all = NODE_SELECTION_FLAGS)]
    pub node: Option<Identity>,
    /// Count the nodes in each collective
    #[arg(long, visible_alias = "list-collectives", alias = "lc")]
    pub collectives: bool,
    /// Draw which nodes are in which collectives, as DOT; - is standard output
    #[arg(
        long,
        visible_alias = "collective-graph",
        alias = "cg",
        value_name = "FILE",
        conflicts_with_all = ["json", "jq"]
    )]
    pub map: Option<PathBuf>,
    /// Print this for each node, as in '{{ node }} {{ facts.country }}'; @FILE reads a file
    #[arg(long, value_name = "TEXT|@FILE", conflicts_with_all = ["collectives", "map", "export", "validate", "json", "jq"])]
    pub template: Option<String>,
    /// Write all about all nodes into this file, for `--dm inventory`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "jq"])]
    pub export: Option<PathBuf>,
    /// Write over an inventory that is there, and keep its groups
    #[arg(long, requires = "export")]
    pub update: bool,
    /// Check an inventory, and ask nobody
    #[arg(long, value_name = "FILE", conflicts_with_all = NODE_SELECTION_FLAGS.into_iter().chain(["json", "jq"]))]
    pub validate: Option<PathBuf>,
    /// Whether a document is wanted.
    #[command(flatten)]
    pub json: JsonArgs,
    /// Which nodes.
    #[command(flatten)]
    pub filters: FilterArgs,
}
