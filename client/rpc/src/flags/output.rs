//! Flags for the results of a request: format, selection and destination.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use muster_ddl::{ActionSchema, DisplayOverride};

use crate::flags::result_form::{ResultDestination, ResultForm};

/// Help text that is not Markdown.
const FILTER_REPLIES_HELP: &str =
    "Show only matching replies, for example 'failed() or data().status == \"stopped\"'";

pub const HELP_HEADING: &str = "Output";
/// Mutually exclusive formats.
const FORMAT_FLAGS: [&str; 6] = ["json", "jsonl", "senders", "table", "group", "template"];

/// How the output of command lines is shown as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandOutputMode {
    /// By node, when its command has ended or after a second.
    ByNode,
    /// Line by line, as it arrives.
    Streamed,
    /// Identical output once, after all nodes have replied.
    Folded,
}

/// Output format of results; text by default.
#[derive(Debug, Clone, Default, Args)]
#[command(group = ArgGroup::new("form").args(FORMAT_FLAGS))]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate command-line flag")]
pub struct OutputArgs {
    /// Print one JSON document
    #[arg(short, long, help_heading = HELP_HEADING)]
    pub json: bool,
    /// Print the result of this jq expression on the JSON document
    #[arg(long, value_name = "EXPR", conflicts_with_all = ["jsonl", "senders", "table", "group", "template"], help_heading = HELP_HEADING)]
    pub jq: Option<String>,
    /// Print one line of JSON per event, as it happens
    #[arg(long, help_heading = HELP_HEADING)]
    pub jsonl: bool,
    /// Print only the names of the nodes that succeeded
    #[arg(long, help_heading = HELP_HEADING)]
    pub senders: bool,
    /// Print a table with a row per node and a column per output
    #[arg(long, help_heading = HELP_HEADING)]
    pub table: bool,
    /// Show identical replies once, with the nodes that sent them
    #[arg(short = 'b', long = "fold", alias = "group", help_heading = HELP_HEADING)]
    pub group: bool,
    /// Print this template for each reply, for example '{{ sender }} {{ data.status }}'; @FILE reads it from a file
    #[arg(long, value_name = "TEXT|@FILE", help_heading = HELP_HEADING)]
    pub template: Option<String>,
    /// Show only the replies that match this expression
    #[arg(long, help = FILTER_REPLIES_HELP, value_name = "EXPR", help_heading = HELP_HEADING)]
    pub filter_replies: Option<String>,
    /// Form of the results: text, json, jsonl, table or name
    #[arg(short = 'o', long = "output", value_name = "FORM", value_parser = ResultDestination::parse, help_heading = HELP_HEADING)]
    pub output: Option<ResultDestination>,
    /// Write results to this file instead of standard output
    #[arg(long = "output-file", value_name = "FILE", help_heading = HELP_HEADING)]
    pub file: Option<PathBuf>,
    /// Replies to show: ok, failed, all or none [default: from the agent's DDL]
    #[arg(long, value_name = "WHICH", help_heading = HELP_HEADING)]
    pub display: Option<DisplayOverride>,
    /// Show replies in the order of node names, after all have arrived
    #[arg(long = "by-name", alias = "sort", help_heading = HELP_HEADING)]
    pub sort: bool,
    /// Show the progress that nodes report during the action [default: from the agent's DDL]
    #[arg(long, conflicts_with_all = ["json", "jq", "senders", "table", "group", "template"], help_heading = HELP_HEADING)]
    pub stream: bool,
    /// Do not show the progress that nodes report
    #[arg(long, conflicts_with = "stream", help_heading = HELP_HEADING)]
    pub no_stream: bool,
    /// Do not show a progress bar
    #[arg(long, alias = "np", help_heading = HELP_HEADING)]
    pub no_progress: bool,
    /// Show the replies as output of command lines.
    #[arg(skip)]
    pub command_output: Option<CommandOutputMode>,
}

impl OutputArgs {
    /// Sets the options that `-o` stands for. Returns whether it names a file, its earlier meaning. Fails with the option that selects another form.
    pub fn apply_output(&mut self) -> Result<bool, &'static str> {
        let Some(output) = self.output.take() else {
            return Ok(false);
        };
        if let Some(form) = output.form()
            && let Some(flag) = self.other_form(form)
        {
            return Err(flag);
        }
        match output.form() {
            Some(ResultForm::Json) => self.json = true,
            Some(ResultForm::Jsonl) => self.jsonl = true,
            Some(ResultForm::Table) => self.table = true,
            Some(ResultForm::Name) => self.senders = true,
            Some(ResultForm::Text) | None => {}
        }
        let file = output.into_file();
        let names_file = file.is_some();
        self.file = self.file.take().or(file);
        Ok(names_file)
    }

    /// The option that selects another form than this one.
    fn other_form(&self, form: ResultForm) -> Option<&'static str> {
        let flags = [
            (self.json, "--json", form == ResultForm::Json),
            (self.jq.is_some(), "--jq", form == ResultForm::Json),
            (self.jsonl, "--jsonl", form == ResultForm::Jsonl),
            (self.senders, "--senders", form == ResultForm::Name),
            (self.table, "--table", form == ResultForm::Table),
            (self.group, "--fold", false),
            (self.template.is_some(), "--template", false),
            (
                self.command_output == Some(CommandOutputMode::Folded),
                "--fold",
                form == ResultForm::Text,
            ),
            (
                self.command_output == Some(CommandOutputMode::Streamed),
                "--stream",
                form == ResultForm::Text,
            ),
        ];
        let other = flags.into_iter().find(|(is_set, _, is_same)| *is_set && !is_same);
        other.map(|(_, flag, _)| flag)
    }

    /// Whether nodes shall send progress: as the flags say, otherwise as the schema says.
    pub fn wants_progress(&self, action: &ActionSchema) -> bool {
        self.stream || (action.streams_progress() && !self.no_stream)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::OutputArgs;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        output: OutputArgs,
    }

    #[test]
    fn two_forms_are_refused() {
        let apply = |line: &str| {
            let words = std::iter::once("x").chain(line.split_whitespace());
            Line::try_parse_from(words).unwrap().output.apply_output()
        };
        for (line, flag) in [
            ("-o json --table", "--table"),
            ("-o table -j", "--json"),
            ("-o jsonl --jq .", "--jq"),
            ("-o text --senders", "--senders"),
            ("-o name --fold", "--fold"),
            ("-o json --template x", "--template"),
        ] {
            assert_eq!(apply(line), Err(flag), "{line}");
        }
        for line in ["-o json -j", "-o json --jq .", "-o table --table", "-o name", "-j", ""] {
            assert_eq!(apply(line), Ok(false), "{line}");
        }
        assert_eq!(apply("-o results.txt -j"), Ok(true));
    }
}
