//! Tests of the command line. The help pages of all commands are compared with snapshots.

use clap::CommandFactory as _;

use super::Cli;
use crate::render::{WIDTH, is_within_width};

fn page(path: &[&str]) -> String {
    let mut command = Cli::command().term_width(WIDTH);
    command.build();
    let found =
        path.iter().fold(&mut command, |command, name| command.find_subcommand_mut(name).unwrap());
    let page = found.render_help().to_string();
    page.lines().map(|line| format!("{}\n", line.trim_end())).collect::<Vec<_>>().concat()
}

/// The commands below this one that the help lists, by their words on the command line.
fn command_paths(command: &clap::Command, path: &[String]) -> Vec<Vec<String>> {
    let below = command.get_subcommands().filter(|below| !below.is_hide_set());
    let below = below.flat_map(|below| {
        let path = [path, &[below.get_name().to_owned()]].concat();
        command_paths(below, &path)
    });
    std::iter::once(path.to_vec()).chain(below).collect()
}

#[test]
fn help_of_every_command_equals_its_golden_file() {
    for path in command_paths(&Cli::command(), &[]) {
        let words: Vec<&str> = path.iter().map(String::as_str).collect();
        let page = page(&words);
        assert!(is_within_width(&page), "{page}");
        insta::assert_snapshot!(format!("help_{}", path.join("_")), page);
    }
}

#[test]
fn command_line_is_valid_and_every_command_has_examples() {
    let command = Cli::command();
    command.clone().debug_assert();
    let mut waiting = vec![command];
    while let Some(command) = waiting.pop() {
        let subcommands: Vec<_> = command.get_subcommands().cloned().collect();
        if subcommands.is_empty() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("rpc "), "`{}` has no example", command.get_name());
        }
        waiting.extend(subcommands);
    }
}
