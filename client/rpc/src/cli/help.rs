//! Help pages: the commands of `rpc --help` in groups, and the short pages of `-h`.
//!
//! clap has neither, so the groups are a template, which a test compares with the commands. A short page is rendered only when it is asked for,
//! from definitions that ordinary calls do not build.

use std::ffi::OsString;

use clap::builder::StyledStr;
use clap::{Command, CommandFactory as _};

use crate::cli::Cli;

pub const USAGE: &str = "rpc COMMAND [ARGUMENTS] [OPTIONS]
       rpc AGENT ACTION [KEY=VALUE]... [OPTIONS]";

/// The page of the program, with its commands in groups. The first ten commands are the most used ones.
pub const TEMPLATE: &str = "\
{about-with-newline}
{usage-heading} {usage}

Run:
  do          Run an action on all matching nodes; also `rpc AGENT ACTION`
  run         Run a command line on all matching nodes
  find        List the nodes that match the filters
  ping        Ping nodes and show their round-trip times
  puppet      Run Puppet with a concurrency limit, and show its state
  cp          Copy a file to all matching nodes, or from them
  cancel      Cancel a request that is running or queued on nodes

Inspect:
  facts       Show the distribution of a fact's values
  inventory   Show the inventory of one node, or report on many nodes
  doctor      Diagnose problems of the client, the brokers and the nodes
  nodes       List the nodes that the directory knows, also those that are down
  node        Show what the directory knows of one node
  explain     Show what a request would send, without sending it
  stats       Show the request counters of daemons
  events      Show the events of nodes as they happen
  filter      Explain and test filters
  check       Run a check of NRPE on all matching nodes, as a Nagios check
  checks      Show scheduled checks, acknowledge problems, begin maintenance
  check-registration  Check that nodes send heartbeats, as a Nagios check
  prompt      Print what a shell's prompt shows of this machine

OpenSSH:
  ssh         Log in to a node by OpenSSH, or run a command on nodes
  scp         Copy files to or from a node by OpenSSH
  sftp        Transfer files to or from a node interactively by OpenSSH
  tunnel      Connect to a port of a node through the broker

Jobs:
  job         List, show, compare, undo and delete stored jobs
  approve     Review and approve a request that another user proposed
  listen      Receive the replies to requests that were sent with --reply-to
  permit      Show and release run permits
  again       Show, cancel and permit further runs of Puppet that runs asked for
  schedule    Request actions by a schedule, and show and pause schedules

Access:
  whoami      Show who you are to the nodes, and until when
  context     List and select contexts: fleets and users
  policy      Check, explain and test policies
  audit       Verify and show a node's audit log
  org         Create and manage an organisation: keys, credentials, revocations

Setup:
  demo        Run a demonstration fleet on this machine: a broker and some nodes
  broker      Configure and run the broker
  provision   Enrol and provision new machines
  config      Deploy policies, facts, checks and settings to daemons
  plugin      List, document, create, check and install agents
  schema      Print the JSON Schema of a command's JSON output
  completion  Print a shell completion script

Options:
{options}

`rpc COMMAND -h` shows the most used options of a command, `rpc COMMAND --help`
all of them, with examples; `rpc AGENT --help` shows the actions of an agent.{after-help}";

/// Options below a heading that a short page shows. It shows all options without a heading, which are the command's own.
const COMMON_OPTIONS: [&str; 17] = [
    "batch",
    "canary",
    "fold",
    "json",
    "limit",
    "max-failures",
    "noop",
    "one",
    "resume",
    "select",
    "table",
    "tags",
    "with",
    "with-class",
    "with-fact",
    "with-identity",
    "yes",
];

impl Cli {
    /// The short page for a command line with `-h`; `None` for another command line.
    pub(super) fn short_help(arguments: &[OsString]) -> Option<StyledStr> {
        let rest: Vec<&OsString> = arguments.iter().filter(|word| *word != "-h").collect();
        if rest.len() == arguments.len() {
            return None;
        }
        // Options and missing arguments do not matter here: only the command's name is needed.
        let matches = Self::command().ignore_errors(true).try_get_matches_from(rest).ok()?;
        let mut path = Vec::new();
        let mut level = &matches;
        while let Some((name, below)) = level.subcommand() {
            path.push(name.to_owned());
            level = below;
        }
        Some(render_short_page(Self::command(), &path))
    }
}

/// The short page of the command with these words: its most used options, and no examples.
pub(super) fn render_short_page(mut root: Command, path: &[String]) -> StyledStr {
    if path.is_empty() {
        return root.after_help("").render_help();
    }
    root = root.mut_args(|argument| argument.hide(true));
    root.build();
    let Some(found) =
        path.iter().try_fold(&mut root, |command, name| command.find_subcommand_mut(name))
    else {
        return root.render_help();
    };
    let full = format!("rpc {} --help", path.join(" "));
    let is_shown = |argument: &clap::Arg| {
        argument.get_id() != "version"
            && (argument.get_help_heading().is_none()
                || argument.get_long().is_none_or(|long| COMMON_OPTIONS.contains(&long)))
    };
    let has_subcommands = found.has_subcommands();
    let command = std::mem::take(found).mut_args(|argument| {
        let is_hidden = argument.is_hide_set() || !is_shown(&argument);
        argument.hide(is_hidden)
    });
    let more = if has_subcommands { "more" } else { "all options, and examples" };
    command.after_help(format!("`{full}` shows {more}.")).render_help()
}
