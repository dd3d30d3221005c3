//! Help pages: the commands of `rpc --help` in groups, and the short pages of `-h`.
//!
//! clap has neither, so the groups are a template, made of the commands' own summaries. A short page is rendered only when it is asked for,
//! from definitions that ordinary calls do not build.

use std::ffi::OsString;

use clap::builder::StyledStr;
use clap::{Command, CommandFactory as _};
use muster_display::page::label_line;

use crate::cli::Cli;
use crate::commands;

pub const USAGE: &str = "rpc COMMAND [ARGUMENTS] [OPTIONS]
       rpc AGENT ACTION [KEY=VALUE]... [OPTIONS]";

/// The page of the program before and after its commands.
const TEMPLATE: (&str, &str) = (
    "\
{about-with-newline}
{usage-heading} {usage}

",
    "\
Options:
{options}

`rpc COMMAND -h` shows the most used options of a command, `rpc COMMAND --help`
all of them, with examples; `rpc AGENT --help` shows the actions of an agent.{after-help}",
);

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
    /// The definitions of all commands, with the page of the program.
    pub fn definition() -> Command {
        let root = Self::command();
        let (start, end) = TEMPLATE;
        let page = [start, &list_groups(&root), end].concat();
        root.help_template(page)
    }

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
        Some(render_short_page(Self::definition(), &path))
    }
}

/// The commands in their groups, with a line for each.
fn list_groups(root: &Command) -> String {
    let mut commands = root.get_subcommands();
    let row = |command: &Command| {
        let about = command.get_about().map(StyledStr::to_string).unwrap_or_default();
        label_line(2, 10, command.get_name(), format_args!("  {about}")) + "\n"
    };
    let groups = commands::Command::GROUPS.iter().map(|(group, count)| {
        let listed = commands.by_ref().take(*count).filter(|command| !command.is_hide_set());
        format!("{group}:\n{}\n", listed.map(row).collect::<String>())
    });
    groups.collect()
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
