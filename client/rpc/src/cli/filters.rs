//! The flags that say which nodes are meant, and where they are looked for: the same for every command that asks the fleet.
//! Kinds are combined with "and"; several `-I` are alternatives. What the texts mean is read elsewhere.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use muster_client::DiscoveryMethod;
use muster_wire::identity::SubjectName;

use super::seconds::parse_seconds;

/// Where the help shows them.
pub(super) const HELP_HEADING: &str = "Filters";

/// What nodes must be to be meant; all are, when nothing is given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct ConditionArgs {
    /// Nodes with this fact: FACT=VALUE, also != < <= > >= =~ and /regex/
    #[arg(short = 'F', long = "with-fact", alias = "wf", value_name = "FACT=VALUE", help_heading = HELP_HEADING)]
    pub facts: Vec<String>,
    /// Nodes with this class, a name or /regex/
    #[arg(short = 'C', long = "with-class", alias = "wc", value_name = "CLASS", help_heading = HELP_HEADING)]
    pub classes: Vec<String>,
    /// Nodes with this agent, a name or /regex/
    #[arg(short = 'A', long = "with-agent", alias = "wa", value_name = "AGENT", help_heading = HELP_HEADING)]
    pub agents: Vec<String>,
    /// These nodes, a name or /regex/
    #[arg(short = 'I', long = "with-identity", alias = "wi", value_name = "NODE", help_heading = HELP_HEADING)]
    pub identities: Vec<String>,
    /// Facts and classes in one text, as in "country=uk apache"
    #[arg(short = 'W', long = "with", value_name = "WORDS", help_heading = HELP_HEADING)]
    pub mixed: Vec<String>,
    /// An expression, as in "(country=uk or country=de) and not apache"
    #[arg(short = 'S', long = "select", value_name = "EXPR", help_heading = HELP_HEADING)]
    pub select: Vec<String>,
}

/// Which nodes are meant, and where they are looked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct FilterArgs {
    /// What they must be.
    #[command(flatten)]
    pub conditions: ConditionArgs,
    /// Ask this collective instead of the configured one
    #[arg(short = 'T', long, value_name = "COLLECTIVE", help_heading = HELP_HEADING)]
    pub target: Option<SubjectName>,
    /// Listen this long for nodes, however quiet it is
    #[arg(long, alias = "dt", value_name = "SECONDS", value_parser = parse_seconds, help_heading = HELP_HEADING)]
    pub discovery_timeout: Option<Duration>,
    /// Take the nodes that this file lists, as lines, JSON or YAML; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["method", "options"], help_heading = HELP_HEADING)]
    pub nodes: Option<PathBuf>,
    /// Find nodes by broadcast, flat, stdin, external, inventory or puppetdb
    #[arg(long = "dm", visible_alias = "disc-method", value_name = "METHOD", help_heading = HELP_HEADING)]
    pub method: Option<DiscoveryMethod>,
    /// An option of that method, as in file=fleet.json
    #[arg(long = "do", visible_alias = "disc-option", value_name = "KEY=VALUE", requires = "method", help_heading = HELP_HEADING)]
    pub options: Vec<String>,
}
