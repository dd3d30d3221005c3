//! `rpc filter ...`: what may be typed.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use muster_wire::identity::SubjectName;

use super::filters::{ConditionArgs, FilterArgs};
use super::json::JsonArgs;

/// The commands on filters themselves. None of them asks anybody.
#[derive(Debug, Subcommand)]
pub enum FilterCommand {
    /// Say in English which nodes the filters mean, and ask nobody
    #[command(after_help = "Examples:
  rpc filter explain -W \"customer=acme apache\" -I /^web/
  rpc filter explain -S \"(country=uk or country=de) and not apache\"")]
    Explain(FilterExplainArgs),
    /// Hold filters against every node of a saved inventory, and ask nobody
    #[command(
        after_help = "For each node: match, no match, or unknown with the data sources that it would ask.
-v tells of each condition whether it holds.

Exit codes: 0 a node matches and none is unknown, 1 no node matches, 2 some are
unknown, 4 the filters cannot be read.

Examples:
  rpc inventory --export fleet.json
  rpc filter test fleet.json \"country=uk and not apache\"
  rpc filter test fleet.json -C apache 'service(\"sshd\").running' -v
  rpc filter test fleet.json 'puppet().enabled' --data 'puppet().enabled=true'"
    )]
    Test(FilterTestArgs),
}

/// `rpc filter explain`.
#[derive(Debug, Args)]
pub struct FilterExplainArgs {
    /// Which nodes.
    #[command(flatten)]
    pub filters: FilterArgs,
}

/// `rpc filter test`.
#[derive(Debug, Args)]
pub struct FilterTestArgs {
    /// The inventory: a file that `rpc inventory --export` wrote
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Expressions, as with -S; all must hold
    #[arg(value_name = "EXPR")]
    pub expressions: Vec<String>,
    /// What a data source answers, as in "puppet().enabled=false"; unknown otherwise; repeatable
    #[arg(long = "data", value_name = "VALUE")]
    pub data: Vec<String>,
    /// Whether a document is wanted.
    #[command(flatten)]
    pub json: JsonArgs,
    /// Which nodes.
    #[command(flatten)]
    pub conditions: ConditionArgs,
    /// Nodes of this collective
    #[arg(
        short = 'T',
        long,
        value_name = "COLLECTIVE",
        help_heading = super::filters::HELP_HEADING
    )]
    pub target: Option<SubjectName>,
}
