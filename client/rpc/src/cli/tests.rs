//! Tests of the command line. The help pages of all commands are compared with snapshots.

use clap::CommandFactory as _;

use crate::cli::Cli;
use crate::commands::Command;
use crate::report::testing::{WIDTH, is_within_width};

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
    let page = found.render_help().to_string();
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
    assert_eq!(
        names[..10],
        ["do", "run", "find", "ping", "puppet", "cp", "cancel", "facts", "inventory", "doctor"]
    );
    let grouped: usize = Command::GROUPS.iter().map(|(_, count)| count).sum();
    assert_eq!(grouped, names.len());
}

#[test]
fn short_help_has_the_most_used_options_and_no_examples() {
    let page = |line: &str| {
        let words: Vec<std::ffi::OsString> = line.split(' ').map(Into::into).collect();
        Cli::short_help(&words).map(|page| page.to_string())
    };
    for line in ["rpc --help", "rpc find --help", "rpc help find", "rpc find -C x"] {
        assert_eq!(page(line), None, "{line}");
    }
    for (line, name) in [
        ("rpc -h", "short"),
        ("rpc find -C apache -h", "short_find"),
        ("rpc do -h", "short_do"),
        ("rpc puppet runall -h", "short_puppet_runall"),
        ("rpc -c x.toml job -h", "short_job"),
    ] {
        let page = page(line).unwrap();
        assert!(is_within_width(&page), "{page}");
        assert!(!page.contains("Examples:") && page.lines().count() <= 76, "{page}");
        let page =
            page.lines().map(|line| format!("{}\n", line.trim_end())).collect::<Vec<_>>().concat();
        insta::assert_snapshot!(name, page);
    }
}
