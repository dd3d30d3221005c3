//! `rpc plugin ...`: what may be typed.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::filters::Filters;
use super::json::Json;
use crate::skeleton::Language;

/// The commands on agents' schemas.
#[derive(Debug, Subcommand)]
pub enum Plugin {
    /// List the agents that are known here
    #[command(after_help = "Examples:
  rpc plugin list
  rpc plugin list -j | jq -r '.agents[].name'")]
    List(List),
    /// Tell what an agent's actions do, take and answer
    #[command(after_help = "Examples:
  rpc plugin doc puppetral
  rpc plugin doc puppetral --markdown > puppetral.md")]
    Doc(Doc),
    /// Ask nodes for the DDL of an agent that is not known here, and keep it
    #[command(after_help = "Examples:
  rpc plugin fetch disk
  rpc plugin fetch disk -F os.family=Debian   from some nodes only
  rpc disk usage mount=/srv                   works from now on

All nodes that answer must have the same DDL. One in `paths.ddls` wins.")]
    Fetch(Fetch),
    /// Write an external agent that works: DDL, program and test
    #[command(after_help = "Examples:
  rpc plugin generate disk --actions usage,top
  rpc plugin generate disk --lang sh --dir /tmp/disk
  ./disk/test_disk                     runs it as the daemon does

Put `disk.json` and `disk` into `paths.ddls` of a node, and a policy beside its
others. Nothing that exists is overwritten.")]
    Generate(Generate),
    /// Check DDL files: what is wrong with them, and where
    #[command(after_help = "Examples:
  rpc plugin check agents/*.json
  rpc plugin check --strict mine.json -j

Exits with 1 when a DDL is refused, and with --strict when one could be better.")]
    Check(Check),
}

/// `rpc plugin generate`.
#[derive(Debug, Args)]
pub struct Generate {
    /// The agent's name: lower-case letters, digits and _
    #[arg(value_name = "AGENT")]
    pub agent: String,
    /// What the program is written in
    #[arg(long, value_name = "LANGUAGE", default_value = "python", value_enum)]
    pub lang: Language,
    /// Its actions, separated by commas
    #[arg(
        long,
        value_name = "ACTIONS",
        default_value = "hello",
        value_delimiter = ','
    )]
    pub actions: Vec<String>,
    /// Where to put it; a new directory of the agent's name when not given
    #[arg(long, value_name = "DIRECTORY")]
    pub dir: Option<PathBuf>,
}

/// `rpc plugin fetch`.
#[derive(Debug, Args)]
pub struct Fetch {
    /// The agent
    #[arg(value_name = "AGENT")]
    pub agent: String,
    /// Which nodes.
    #[command(flatten)]
    pub filters: Filters,
}

/// `rpc plugin list`.
#[derive(Debug, Args)]
pub struct List {
    /// Whether a document is wanted.
    #[command(flatten)]
    pub json: Json,
}

/// `rpc plugin check`.
#[derive(Debug, Args)]
pub struct Check {
    /// The files
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Refuse what could be better, too
    #[arg(long)]
    pub strict: bool,
    /// Whether a document is wanted.
    #[command(flatten)]
    pub json: Json,
}

/// `rpc plugin doc`.
#[derive(Debug, Args)]
pub struct Doc {
    /// The agent
    #[arg(value_name = "AGENT")]
    pub agent: String,
    /// Print Markdown
    #[arg(long, conflicts_with_all = ["json", "jq"])]
    pub markdown: bool,
    /// Whether the schema itself is wanted.
    #[command(flatten)]
    pub json: Json,
}
