//! Arguments of `rpc compile` and `rpc catalog ...`.

use clap::{Args, Subcommand};
use muster_wire::catalog::CatalogAddress;
use muster_wire::identity::Identity;

use crate::flags::filters::ConditionArgs;
use crate::flags::json::JsonArgs;

pub const COMPILE_USAGE: &str = "rpc compile [FILTERS]
       rpc compile --all
       rpc compile --environment NAME [--code COMMIT]
       rpc compile --check-inputs [FILTERS]";

pub const COMPILE_HELP: &str = "Examples:
  rpc compile -I web1.acme.net                        this node, before others
  rpc compile --environment production                look for newer code now
  rpc compile --environment production --code 4f2c1e  compile this commit
  rpc compile --check-inputs -C web                   try what catalogs depend on

Nodes are compiled without being asked for when something changed that their
last compile read. No node applies a catalog because it was compiled.

--check-inputs stores nothing: it compiles each node again, once as it is and
once with every fact altered that its catalog did not read. Another catalog is
an error of the module set or of the compiler.

A commit that --code names is compiled until another one is named; without
--code the newest commit of the branch is compiled again.";

/// `rpc compile`.
#[derive(Debug, Args)]
pub struct CompileArgs {
    /// Look for newer code of this environment, and compile what it changes
    #[arg(long, value_name = "NAME")]
    pub environment: Option<String>,
    /// Compile this commit, branch or tag
    #[arg(long, value_name = "COMMIT", requires = "environment")]
    pub code: Option<String>,
    /// Compile all nodes
    #[arg(long, conflicts_with = "environment")]
    pub all: bool,
    /// Check that nothing else decides about catalogs than what was recorded; at most 100 nodes
    #[arg(long, conflicts_with_all = ["environment", "all"])]
    pub check_inputs: bool,
    /// Which nodes.
    #[command(flatten)]
    pub conditions: ConditionArgs,
    /// JSON output.
    #[command(flatten)]
    pub json: JsonArgs,
}

/// Commands for catalogs.
#[derive(Debug, Subcommand)]
pub enum CatalogCommand {
    /// List nodes with their last compile
    #[command(after_help = "Examples:
  rpc catalog list
  rpc catalog list --failed
  rpc catalog list -C apache -j --jq '.nodes[].catalog'")]
    List(CatalogListArgs),
    /// Show a catalog of a node, without its secrets
    #[command(after_help = "Examples:
  rpc catalog show web1.acme.net
  rpc catalog show web1.acme.net -j --jq '.catalog.resources[].title'")]
    Show(CatalogShowArgs),
    /// Show what the catalog of a node depends on, and what caused its last compile
    #[command(after_help = "Examples:
  rpc catalog why web1.acme.net
  rpc catalog why web1.acme.net -j --jq '.inputs[] | select(.kind == \"fact\").name'")]
    Why(CatalogWhyArgs),
    /// List the environments, with their code and nodes
    #[command(after_help = "Example:
  rpc catalog environments")]
    Environments(JsonArgs),
}

/// `rpc catalog list`.
#[derive(Debug, Args)]
pub struct CatalogListArgs {
    /// Only nodes whose last compile failed
    #[arg(long)]
    pub failed: bool,
    /// Which nodes.
    #[command(flatten)]
    pub conditions: ConditionArgs,
    /// JSON output.
    #[command(flatten)]
    pub json: JsonArgs,
}

/// `rpc catalog show`.
#[derive(Debug, Args)]
pub struct CatalogShowArgs {
    /// The node
    pub node: Identity,
    /// The catalog with this address [default: the newest]
    #[arg(long, value_name = "ADDRESS")]
    pub address: Option<CatalogAddress>,
    /// JSON output.
    #[command(flatten)]
    pub json: JsonArgs,
}

/// `rpc catalog why`.
#[derive(Debug, Args)]
pub struct CatalogWhyArgs {
    /// The node
    pub node: Identity,
    /// JSON output.
    #[command(flatten)]
    pub json: JsonArgs,
}
