//! Arguments of `rpc run`.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{ArgGroup, Args};
use muster_wire::identity::SubjectName;

use crate::flags::filters::FilterArgs;
use crate::flags::named_nodes::NamedNodeArgs;
use crate::flags::output;
use crate::flags::result_form::{ResultDestination, ResultForm};
use crate::flags::rollout_flags::PaceArgs;
use crate::flags::seconds::parse_seconds;

pub const USAGE: &str = "rpc run COMMAND [NODE]... [OPTIONS]";

pub const AFTER_HELP: &str = "Examples:
  rpc run uptime -C web                            one line per node
  rpc run 'cat /etc/resolv.conf' -W country=uk -b  identical output once
  rpc run 'tail -f /var/log/syslog' web1.acme.net -t 60
  rpc run 'uname -r' db1 web[1-40].acme.net
  rpc run 'make all' --user deploy --cwd /srv/app --env JOBS=4 -I build1
  rpc run 'apt-get -qy upgrade' -C web --canary 1 --batch 10% --max-failures 2
  rpc run 'df -P / | tail -1' -j --jq '.replies[] | [.sender, .data.stdout]'

A node prints its output when the command has ended: one line after the name of
the node, more lines below it. If the command takes longer than a second, each
line is printed as it arrives, with the name of the node. Lines of the standard
error are marked with `stderr:`. A failure is shown with its exit code, and the
last line counts the nodes by exit code.

The nodes must allow it: `[plugins.shell] enabled = true` in rpcd.toml, and a
policy for `shell run`, which is equivalent to root. Output above 64 KiB per
stream is cut, which is stated. The job of a command can be shown and repeated
with `rpc job` and `rpc do --retry-failed`; `rpc cancel` stops commands that
still run. For commands of more than ten minutes see `rpc shell start`.";

const COMMAND_HEADING: &str = "Command options";

/// Longest time limit of a command, in seconds: the agent's limit, less the time for the reply.
const MAX_RUN_SECONDS: u64 = 590;

/// `rpc run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Command line, which `/bin/sh -c` interprets on each node
    #[arg(value_name = "COMMAND", value_parser = NonEmptyStringValueParser::new())]
    pub command: String,
    /// Nodes as arguments.
    #[command(flatten)]
    pub named: NamedNodeArgs,
    /// Kill the command after this many seconds
    #[arg(short, long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..=MAX_RUN_SECONDS), default_value_t = MAX_RUN_SECONDS)]
    pub timeout: u64,
    /// Time limit for a node to start the command
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, default_value = "60")]
    pub ttl: Duration,
    /// Run as this user [default: the user of the daemon]
    #[arg(long, value_name = "USER", help_heading = COMMAND_HEADING)]
    pub user: Option<String>,
    /// Working directory [default: /]
    #[arg(long, value_name = "DIRECTORY", help_heading = COMMAND_HEADING)]
    pub cwd: Option<String>,
    /// Set an environment variable; encrypted for each node, and not recorded; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_variable, help_heading = COMMAND_HEADING)]
    pub env: Vec<(String, String)>,
    /// Do not ask for confirmation before running on many nodes
    #[arg(short, long, help_heading = COMMAND_HEADING)]
    pub yes: bool,
    /// Name of the stored job
    #[arg(long, value_name = "NAME", help_heading = COMMAND_HEADING)]
    pub job: Option<SubjectName>,
    /// Output format.
    #[command(flatten)]
    pub output: RunOutputArgs,
    /// Limits and batches.
    #[command(flatten)]
    pub pace: PaceArgs,
    /// The nodes.
    #[command(flatten)]
    pub filters: FilterArgs,
}

/// Output format of commands; text by default.
#[derive(Debug, Clone, Default, Args)]
#[command(group = ArgGroup::new("form").args(["json", "jsonl", "fold", "stream"]))]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate command-line flag")]
pub struct RunOutputArgs {
    /// Print identical output once, with the nodes that sent it, after all nodes have replied
    #[arg(short = 'b', long, help_heading = output::HELP_HEADING)]
    pub fold: bool,
    /// Print each line as it arrives, with the name of the node
    #[arg(long, help_heading = output::HELP_HEADING)]
    pub stream: bool,
    /// Print the output in the order of node names, after all nodes have replied
    #[arg(long = "by-name", alias = "sort", conflicts_with_all = ["fold", "stream"], help_heading = output::HELP_HEADING)]
    pub sort: bool,
    /// Print one JSON document
    #[arg(short, long, help_heading = output::HELP_HEADING)]
    pub json: bool,
    /// Print the result of this jq expression on the JSON document
    #[arg(long, value_name = "EXPR", conflicts_with_all = ["jsonl", "fold", "stream"], help_heading = output::HELP_HEADING)]
    pub jq: Option<String>,
    /// Print one line of JSON per event, as it happens
    #[arg(long, help_heading = output::HELP_HEADING)]
    pub jsonl: bool,
    /// Form of the output: text, json or jsonl
    #[arg(short = 'o', long = "output", value_name = "FORM", value_parser = parse_run_form, help_heading = output::HELP_HEADING)]
    pub output: Option<ResultDestination>,
    /// Write the output to this file instead of standard output
    #[arg(long = "output-file", value_name = "FILE", help_heading = output::HELP_HEADING)]
    pub file: Option<PathBuf>,
    /// Do not show a progress bar
    #[arg(long, alias = "np", help_heading = output::HELP_HEADING)]
    pub no_progress: bool,
}

/// Parses the form of the output, which has no rows and no names.
fn parse_run_form(text: &str) -> Result<ResultDestination, String> {
    let output = ResultDestination::parse(text)?;
    match output.form() {
        Some(ResultForm::Table | ResultForm::Name) => Err("use text, json or jsonl".to_owned()),
        _ => Ok(output),
    }
}

/// Parses `NAME=VALUE`. The value may be empty and may contain `=`.
fn parse_variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::parse_variable;

    #[test]
    fn variables_are_split_at_the_first_equals_sign() {
        assert_eq!(parse_variable("A=b=c"), Ok(("A".to_owned(), "b=c".to_owned())));
        assert_eq!(parse_variable("A="), Ok(("A".to_owned(), String::new())));
        assert!(parse_variable("A").is_err() && parse_variable("=b").is_err());
    }
}
