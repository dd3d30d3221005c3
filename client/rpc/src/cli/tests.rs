//! Tests of the command line. The help pages of all commands are compared with snapshots.

use clap::CommandFactory as _;

use crate::cli::help::{FIRST_COMMANDS, render_short_page};
use crate::cli::{Cli, CommandLineMessage};
use crate::commands::Command;
use crate::flags::topics::TOPICS;
use crate::report::testing::{WIDTH, is_within_width};

/// A terminal shows them with its prompt.
const MAX_FIRST_LINES: usize = 40;

/// The definitions of all commands, which are deferred until a command is built.
fn built_command() -> clap::Command {
    let mut command = Cli::definition().term_width(WIDTH);
    command.build();
    command
}

fn page(path: &[&str]) -> String {
    let mut command = built_command();
    let found =
        path.iter().fold(&mut command, |command, name| command.find_subcommand_mut(name).unwrap());
    trim_lines(&found.render_help().to_string())
}

fn trim_lines(page: &str) -> String {
    page.lines().map(|line| format!("{}\n", line.trim_end())).collect::<Vec<_>>().concat()
}

/// The commands below this one that the help lists, by their words on the command line.
fn command_paths(command: &clap::Command, path: &[String]) -> Vec<Vec<String>> {
    let is_listed = |below: &&clap::Command| !below.is_hide_set() && below.get_name() != "help";
    let below = command.get_subcommands().filter(is_listed);
    let below = below.flat_map(|below| {
        let path = [path, &[below.get_name().to_owned()]].concat();
        command_paths(below, &path)
    });
    std::iter::once(path.to_vec()).chain(below).collect()
}

#[test]
fn help_of_every_command_equals_its_golden_file() {
    for path in command_paths(&built_command(), &[]) {
        let words: Vec<&str> = path.iter().map(String::as_str).collect();
        let page = page(&words);
        assert!(is_within_width(&page), "{page}");
        insta::assert_snapshot!(format!("help_{}", path.join("_")), page);
    }
}

#[test]
fn command_line_is_valid_and_every_command_has_examples() {
    Cli::command().debug_assert();
    let mut waiting = vec![built_command()];
    while let Some(command) = waiting.pop() {
        let subcommands = command.get_subcommands().filter(|below| below.get_name() != "help");
        let subcommands: Vec<_> = subcommands.cloned().collect();
        if subcommands.is_empty() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("rpc "), "`{}` has no example", command.get_name());
            // A longer line of text is wrapped, which leaves a word on a line of its own.
            let mut lines = help.lines().filter(|line| !line.starts_with(' '));
            let wrapped = lines.find(|line| line.chars().count() > WIDTH);
            assert_eq!(wrapped, None, "`{}`", command.get_name());
        }
        waiting.extend(subcommands);
    }
}

#[test]
fn every_command_is_in_exactly_one_group_of_the_help() {
    let command = Cli::command();
    let names: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
    assert_eq!(names[..6], ["do", "run", "cp", "puppet", "cancel", "explain"]);
    let grouped: usize = Command::GROUPS.iter().map(|(_, count)| count).sum();
    assert_eq!(grouped, names.len());
}

/// The page for a command line, with trailing spaces removed.
fn printed_page(line: &str) -> String {
    let words: Vec<std::ffi::OsString> = line.split(' ').map(Into::into).collect();
    match Cli::parse_arguments(words) {
        Err(CommandLineMessage::HelpPage(page)) => trim_lines(&page.to_string()),
        Err(CommandLineMessage::Clap(error)) => trim_lines(&error.to_string()),
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn first_page_has_commands_of_the_first_hour() {
    let page = printed_page("rpc");
    assert!(is_within_width(&page) && page.lines().count() <= MAX_FIRST_LINES, "{page}");
    for line in ["rpc -h", "rpc help", "rpc -v -h"] {
        assert_eq!(printed_page(line), page, "{line}");
    }
    // The names of the page are commands.
    let rows = page.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    assert_eq!(rows.count(), FIRST_COMMANDS.iter().map(|(_, names)| names.len()).sum::<usize>());
}

#[test]
fn full_page_has_all_commands_and_topics() {
    let page = printed_page("rpc help all");
    assert_eq!(printed_page("rpc --help"), page);
    assert!(is_within_width(&page), "{page}");
    for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
        assert!(page.contains(&format!("\n  {} ", command.get_name())), "{}", command.get_name());
    }
    insta::assert_snapshot!("help_all", page);
    for topic in TOPICS {
        let page = printed_page(&format!("rpc help {}", topic.name));
        assert!(is_within_width(&page) && page.contains("Examples:"), "{page}");
        insta::assert_snapshot!(format!("help_topic_{}", topic.name), page);
    }
}

#[test]
fn short_help_has_own_options_and_a_line_for_each_group() {
    for (line, name) in [
        ("rpc find -C apache -h", "short_find"),
        ("rpc do -h", "short_do"),
        ("rpc run -h", "short_run"),
        ("rpc puppet runall -h", "short_puppet_runall"),
        ("rpc -c x.toml job -h", "short_job"),
    ] {
        insta::assert_snapshot!(name, printed_page(line));
    }
    for path in command_paths(&built_command(), &[]).iter().filter(|path| !path.is_empty()) {
        let page = trim_lines(&render_short_page(Cli::definition(), path).to_string());
        assert!(is_within_width(&page) && !page.contains("Examples:"), "{page}");
    }
    for line in ["rpc find --help", "rpc help find", "rpc find -C x"] {
        let words: Vec<std::ffi::OsString> = line.split(' ').map(Into::into).collect();
        assert_eq!(Cli::help_page(&words).map(|page| page.to_string()), None, "{line}");
    }
}
