//! The flags that say in which form a request's results are shown, which of them, and where they go.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use muster_ddl::DisplayOverride;

/// Help that is no Markdown.
const FILTER_REPLIES_HELP: &str =
    "Only the replies for which this holds, as in 'failed() or data().status == \"stopped\"'";

const HELP_HEADING: &str = "Output";
/// The forms that exclude one another.
const FORMAT_FLAGS: [&str; 6] = ["json", "jsonl", "senders", "table", "group", "template"];

/// How results are shown; as pages for people when nothing is given.
#[derive(Debug, Clone, Default, Args)]
#[command(group = ArgGroup::new("form").args(FORMAT_FLAGS))]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of its own, as people type them"
)]
pub struct OutputArgs {
    /// Print one JSON document
    #[arg(short, long, help_heading = HELP_HEADING)]
    pub json: bool,
    /// Print what this jq expression makes of the JSON document
    #[arg(long, value_name = "EXPR", conflicts_with_all = ["jsonl", "senders", "table", "group", "template"], help_heading = HELP_HEADING)]
    pub jq: Option<String>,
    /// Print a line of JSON for each thing that happens, as it happens
    #[arg(long, help_heading = HELP_HEADING)]
    pub jsonl: bool,
    /// Print only the names of the nodes that succeeded
    #[arg(long, help_heading = HELP_HEADING)]
    pub senders: bool,
    /// Print a table: a row for each node, a column for each output
    #[arg(long, help_heading = HELP_HEADING)]
    pub table: bool,
    /// Show replies that say the same once, with the nodes that say it
    #[arg(long, help_heading = HELP_HEADING)]
    pub group: bool,
    /// Print this for each reply, as in '{{ sender }} {{ data.status }}'; @FILE reads a file
    #[arg(long, value_name = "TEXT|@FILE", help_heading = HELP_HEADING)]
    pub template: Option<String>,
    /// Only the replies for which this holds
    #[arg(long, help = FILTER_REPLIES_HELP, value_name = "EXPR", help_heading = HELP_HEADING)]
    pub filter_replies: Option<String>,
    /// Write results into this file, not to standard output
    #[arg(short = 'o', long = "output", value_name = "FILE", help_heading = HELP_HEADING)]
    pub file: Option<PathBuf>,
    /// Which replies to show: ok, failed, all or none [default: the action's own]
    #[arg(long, value_name = "WHICH", help_heading = HELP_HEADING)]
    pub display: Option<DisplayOverride>,
    /// Show replies in the order of node names, once all are there
    #[arg(long, help_heading = HELP_HEADING)]
    pub sort: bool,
    /// Show what nodes tell while they are at work [default: as the DDL says]
    #[arg(long, conflicts_with_all = ["json", "jq", "senders", "table", "group", "template"], help_heading = HELP_HEADING)]
    pub stream: bool,
    /// Do not show it
    #[arg(long, conflicts_with = "stream", help_heading = HELP_HEADING)]
    pub no_stream: bool,
    /// No progress bar
    #[arg(long, alias = "np", help_heading = HELP_HEADING)]
    pub no_progress: bool,
}
