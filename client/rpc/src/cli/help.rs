//! Help pages that clap does not have: the page of `rpc`, that of `rpc help all`, the short pages of `-h`, and topics.
//!
//! All are made of the definitions of commands and options. Except for the first, a page is rendered only when it is asked for.

use std::ffi::OsString;

use clap::builder::StyledStr;
use clap::{Arg, Command, CommandFactory as _};
use muster_display::page::label_line;

use crate::cli::Cli;
use crate::cli::read::help_index;
use crate::commands;
use crate::flags::topics::{HelpTopic, TOPICS, find_topic};

pub const USAGE: &str = "rpc COMMAND [ARGUMENTS] [OPTIONS]
       rpc AGENT ACTION [KEY=VALUE]... [OPTIONS]";

const PAGE_START: &str = "\
{about-with-newline}
{usage-heading} {usage}

";

/// Commands of the first hour, which the page of `rpc` lists.
pub(super) const FIRST_COMMANDS: [(&str, &[&str]); 3] = [
    ("Run", &["do", "run", "cp", "ssh", "puppet", "schedule", "job", "cancel", "explain"]),
    ("Inspect", &["find", "ping", "nodes", "node", "facts", "checks", "history", "doctor"]),
    (
        "Administer",
        &["demo", "org", "broker", "provision", "config", "upgrade", "policy", "whoami"],
    ),
];

const FIRST_PAGE_END: &str = "\
All commands: `rpc help all`. One command: `rpc COMMAND -h`, more: `--help`.
An agent: `rpc AGENT --help`. Shared options: `rpc help TOPIC`, where TOPIC is
";

const FULL_PAGE_END: &str = "\
Options:
{options}

`rpc COMMAND -h` shows the options of a command alone, `rpc COMMAND --help` all
of them, with examples; `rpc AGENT --help` shows the actions of an agent.{after-help}";

/// Width of the names of commands and topics, and of the options of a group, in columns.
const NAME_WIDTH: usize = 10;
const GROUP_WIDTH: usize = 32;

/// Options that stand for their group in a short page.
const COMMON_OPTIONS: [&str; 20] = [
    "batch",
    "canary",
    "fold",
    "jq",
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
    "with-agent",
    "with-class",
    "with-fact",
    "with-identity",
    "query",
    "yes",
];

impl Cli {
    /// The definitions of all commands, with the page of `rpc`.
    pub fn definition() -> Command {
        let root = Self::command();
        let page = [PAGE_START, &list_first_commands(&root), &end_first_page()].concat();
        root.help_template(page)
    }

    /// The page with all commands.
    pub(super) fn full_page() -> Command {
        let root = Self::command();
        let page = [PAGE_START, &list_groups(&root), &list_topics(), FULL_PAGE_END].concat();
        root.help_template(page)
    }

    /// The page for a command line with `-h` or, without a command, `--help`; `None` for another command line.
    pub(super) fn help_page(arguments: &[OsString]) -> Option<StyledStr> {
        let is_help = |word: &&OsString| *word == "-h" || *word == "--help";
        let rest: Vec<&OsString> = arguments.iter().filter(|word| !is_help(word)).collect();
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
        match (path.is_empty(), arguments.iter().any(|word| word == "-h")) {
            (true, true) => Some(Self::definition().render_help()),
            (true, false) => Some(Self::full_page().render_help()),
            (false, true) => Some(render_short_page(Self::definition(), &path)),
            (false, false) => None,
        }
    }

    /// The page for `rpc help all` or `rpc help TOPIC`; `None` for another command line.
    pub(super) fn topic_page(arguments: &[OsString]) -> Option<StyledStr> {
        let name = arguments.get(help_index(arguments)? + 1)?;
        if name == "all" {
            return Some(Self::full_page().render_help());
        }
        let topic = TOPICS.iter().find(|topic| name == topic.name)?;
        Some(render_topic(Self::definition(), topic))
    }
}

fn command_row(command: &Command) -> String {
    name_row(command.get_name(), &command.get_about().map(StyledStr::to_string).unwrap_or_default())
}

fn name_row(name: &str, about: &str) -> String {
    label_line(2, NAME_WIDTH, name, format_args!("  {about}")) + "\n"
}

fn list_first_commands(root: &Command) -> String {
    let groups = FIRST_COMMANDS.iter().map(|(group, names)| {
        let listed = names.iter().filter_map(|name| root.find_subcommand(name));
        format!("{group}:\n{}\n", listed.map(command_row).collect::<String>())
    });
    groups.collect()
}

fn end_first_page() -> String {
    let names: Vec<&str> = TOPICS.iter().map(|topic| topic.name).collect();
    format!("{FIRST_PAGE_END}{}.", names.join(", "))
}

/// All commands in their groups, with a line for each; those that only scripts run are left out.
fn list_groups(root: &Command) -> String {
    let mut commands = root.get_subcommands();
    let groups = commands::Command::GROUPS.iter().map(|(group, count)| {
        let listed = commands.by_ref().take(*count).filter(|command| !command.is_hide_set());
        format!("{group}:\n{}\n", listed.map(command_row).collect::<String>())
    });
    groups.collect()
}

fn list_topics() -> String {
    let rows = TOPICS.iter().map(|topic| name_row(topic.name, topic.summary));
    format!("Topics, as in `rpc help filters`:\n{}\n", rows.collect::<String>())
}

/// The definition of the command with these words.
fn find_command(mut root: Command, path: &[String]) -> Option<Command> {
    root.build();
    let found =
        path.iter().try_fold(&mut root, |command, name| command.find_subcommand_mut(name))?;
    Some(std::mem::take(found))
}

/// The command with these of its arguments only.
fn show_only(command: Command, is_shown: impl Fn(&Arg) -> bool) -> Command {
    command.mut_args(|argument| {
        let is_hidden = argument.is_hide_set() || !is_shown(&argument);
        argument.hide(is_hidden)
    })
}

/// The short page of the command with these words: its own options, a line for each group of options, and no examples.
pub(super) fn render_short_page(root: Command, path: &[String]) -> StyledStr {
    let Some(command) = find_command(root, path) else { return StyledStr::new() };
    let groups = list_option_groups(&command);
    let more = if command.has_subcommands() { "more" } else { "all options, and examples" };
    let is_own = |argument: &Arg| {
        argument.get_id() != "version"
            && (argument.is_positional() || argument.get_help_heading().is_none())
    };
    let own = show_only(command, is_own);
    let path = path.join(" ");
    own.after_help(format!("{groups}`rpc {path} --help` shows {more}.")).render_help()
}

/// A line for each heading of options: some of them, and the heading or the topic that explains them.
fn list_option_groups(command: &Command) -> String {
    let options = command.get_arguments().filter(|arg| !arg.is_positional() && !arg.is_hide_set());
    let mut groups: Vec<(&str, Vec<&Arg>)> = Vec::new();
    for option in options {
        let Some(heading) = option.get_help_heading() else { continue };
        match groups.iter_mut().find(|(name, _)| *name == heading) {
            Some((_, members)) => members.push(option),
            None => groups.push((heading, vec![option])),
        }
    }
    if groups.is_empty() {
        return String::new();
    }
    let rows = groups.iter().map(|(heading, members)| {
        let text = match find_topic(heading) {
            Some(topic) => format!("{}: `rpc help {}`", topic.summary, topic.name),
            None => (*heading).to_owned(),
        };
        label_line(2, GROUP_WIDTH, name_options(members), text) + "\n"
    });
    format!("Groups of options:\n{}\n", rows.collect::<String>())
}

/// The names of a group's options, common ones first, as many as fit.
fn name_options(members: &[&Arg]) -> String {
    const MORE: &str = " ...";
    let is_common = |arg: &&Arg| arg.get_long().is_some_and(|long| COMMON_OPTIONS.contains(&long));
    let (common, others): (Vec<&Arg>, Vec<&Arg>) = members.iter().copied().partition(is_common);
    let mut names = String::new();
    let mut count = 0;
    for arg in common.iter().chain(&others) {
        let name = match (arg.get_short(), arg.get_long()) {
            (Some(short), _) => format!("-{short} "),
            (None, long) => format!("--{} ", long.unwrap_or_default()),
        };
        if names.len() + name.len() + MORE.len() > GROUP_WIDTH {
            break;
        }
        names += &name;
        count += 1;
    }
    let more = if count < members.len() { MORE } else { "" };
    names.trim_end().to_owned() + more
}

/// The page of a topic: its options, as `rpc do` defines them.
fn render_topic(root: Command, topic: &HelpTopic) -> StyledStr {
    let HelpTopic { heading, summary, text, examples, .. } = topic;
    let Some(command) = find_command(root, &["do".to_owned()]) else { return StyledStr::new() };
    show_only(command, |argument| argument.get_help_heading() == Some(*heading))
        .help_template("{before-help}{options}{after-help}")
        .before_help(format!("{summary}\n\n{text}"))
        .after_help(format!(
            "Examples:\n{examples}\n\nThese are options of `rpc do`; `rpc COMMAND --help` lists those of a command."
        ))
        .render_help()
}
