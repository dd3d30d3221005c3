//! Arguments of `rpc filter ...`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use muster_wire::identity::SubjectName;

use crate::flags::filters::{ConditionArgs, FilterArgs, HELP_HEADING};
use crate::flags::json::JsonArgs;

/// Commands for filters. They send no requests.
#[derive(Debug, Subcommand)]
pub enum FilterCommand {
    /// Describe in English which nodes the filters select, without sending a request
    #[command(after_help = "Examples:
  rpc filter explain -W \"customer=acme apache\" -I /^web/
  rpc filter explain -S \"(country=uk or country=de) and not apache\"
  rpc filter explain -Q '{ facts.load: { $gt: 2 }, classes: { $ne: apache } }'")]
    Explain(FilterArgs),
    /// Test filters against each node of a saved inventory, without sending a request
    #[command(
        after_help = "Prints for each node: match, no match, or unknown with the data sources
that it would query. With -v, also prints whether each condition matches.

Exit codes: 0 a node matches and none is unknown, 1 no node matches, 2 some are
unknown, 4 the filters are invalid.

Examples:
  rpc inventory --export fleet.json
  rpc filter test fleet.json \"country=uk and not apache\"
  rpc filter test fleet.json -C apache 'service(\"sshd\").running' -v
  rpc filter test fleet.json 'puppet().enabled' --data 'puppet().enabled=true'"
    )]
    Test(FilterTestArgs),
}

/// `rpc filter test`.
#[derive(Debug, Args)]
pub struct FilterTestArgs {
    /// Inventory file, written by `rpc inventory --export`
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Expressions, as for -S; all of them must match
    #[arg(value_name = "EXPR")]
    pub expressions: Vec<String>,
    /// Result of a data source, for example "puppet().enabled=false"; unknown if not given; repeatable
    #[arg(long = "data", value_name = "VALUE")]
    pub data: Vec<String>,
    /// JSON output.
    #[command(flatten)]
    pub json: JsonArgs,
    /// The nodes.
    #[command(flatten)]
    pub conditions: ConditionArgs,
    /// Test only nodes of this collective
    #[arg(short = 'T', long, value_name = "COLLECTIVE", help_heading = HELP_HEADING)]
    pub target: Option<SubjectName>,
}
