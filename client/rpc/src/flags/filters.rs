//! Flags that select the target nodes and the discovery method; the same for every command that sends requests to the fleet.
//! Different kinds are combined with "and"; several `-I` are alternatives. The values are parsed elsewhere.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use muster_calls::DiscoveryMethod;
use muster_client::TargetOptions;
use muster_wire::identity::SubjectName;

use crate::flags::json::JsonArgs;
use crate::flags::named_nodes::parse_identity_condition;
use crate::flags::seconds::parse_seconds;

pub const HELP_HEADING: &str = "Filters";

/// Conditions on nodes. Without conditions, all nodes match.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct ConditionArgs {
    /// Fact; also != < <= > >= =~, and /regex/
    #[arg(short = 'F', long = "with-fact", alias = "wf", value_name = "FACT=VALUE", help_heading = HELP_HEADING)]
    pub facts: Vec<String>,
    /// Class, a name or /regex/
    #[arg(short = 'C', long = "with-class", alias = "wc", value_name = "CLASS", help_heading = HELP_HEADING)]
    pub classes: Vec<String>,
    /// Agent, a name or /regex/
    #[arg(short = 'A', long = "with-agent", alias = "wa", value_name = "AGENT", help_heading = HELP_HEADING)]
    pub agents: Vec<String>,
    /// Node, short name, web[1-9], or /regex/
    #[arg(short = 'I', long = "with-identity", alias = "wi", value_name = "NODE", value_parser = parse_identity_condition, help_heading = HELP_HEADING)]
    pub identities: Vec<String>,
    /// Facts and classes: "country=uk apache"
    #[arg(short = 'W', long = "with", value_name = "WORDS", help_heading = HELP_HEADING)]
    pub mixed: Vec<String>,
    /// Expression: "country=uk and not apache"
    #[arg(short = 'S', long = "select", value_name = "EXPR", help_heading = HELP_HEADING)]
    pub select: Vec<String>,
    /// Query document: "{'facts.country': 'uk'}"
    #[arg(short = 'Q', long = "query", value_name = "DOCUMENT", help_heading = HELP_HEADING)]
    pub query: Vec<String>,
    /// Compare numbers in -Q with texts, too
    #[arg(long, requires = "query", help_heading = HELP_HEADING)]
    pub loose: bool,
}

/// Target nodes, and how they are discovered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct FilterArgs {
    /// Conditions.
    #[command(flatten)]
    pub conditions: ConditionArgs,
    /// Collective, if not the configured one
    #[arg(short = 'T', long, value_name = "COLLECTIVE", help_heading = HELP_HEADING)]
    pub target: Option<SubjectName>,
    /// Discover nodes for exactly this long
    #[arg(long, alias = "dt", value_name = "SECONDS", value_parser = parse_seconds, help_heading = HELP_HEADING)]
    pub discovery_timeout: Option<Duration>,
    /// File that lists the nodes; - is stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["method", "options"], help_heading = HELP_HEADING)]
    pub nodes: Option<PathBuf>,
    /// Discovery method, such as puppetdb
    #[arg(long = "dm", alias = "disc-method", value_name = "METHOD", help_heading = HELP_HEADING)]
    pub method: Option<DiscoveryMethod>,
    /// Its options, such as file=fleet.json
    #[arg(long = "do", alias = "disc-option", value_name = "KEY=VALUE", requires = "method", help_heading = HELP_HEADING)]
    pub options: Vec<String>,
}

impl From<&FilterArgs> for TargetOptions {
    fn from(flags: &FilterArgs) -> Self {
        let FilterArgs { conditions, target, discovery_timeout, nodes, method, options } =
            flags.clone();
        Self {
            facts: conditions.facts,
            classes: conditions.classes,
            agents: conditions.agents,
            identities: conditions.identities,
            mixed: conditions.mixed,
            select: conditions.select,
            query: conditions.query,
            loose: conditions.loose,
            collective: target,
            listen: discovery_timeout,
            nodes,
            method,
            method_options: options,
        }
    }
}

/// Options of a question to the nodes.
#[derive(Debug, Args)]
pub struct QueryArgs {
    /// JSON output.
    #[command(flatten)]
    pub json: JsonArgs,

    /// The nodes.
    #[command(flatten)]
    pub filters: FilterArgs,
}
