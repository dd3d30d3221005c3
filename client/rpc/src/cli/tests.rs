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

#[test]
fn help_pages_match_the_snapshots() {
    for path in [
        vec![],
        vec!["ping"],
        vec!["find"],
        vec!["facts"],
        vec!["inventory"],
        vec!["do"],
        vec!["cancel"],
        vec!["doctor"],
        vec!["stats"],
        vec!["approve"],
        vec!["explain"],
        vec!["job", "list"],
        vec!["job", "show"],
        vec!["job", "diff"],
        vec!["job", "forget"],
        vec!["filter", "explain"],
        vec!["audit", "verify"],
        vec!["audit", "show"],
        vec!["policy", "check"],
        vec!["policy", "explain"],
        vec!["policy", "test"],
        vec!["provision"],
        vec!["provision", "token"],
        vec!["puppet", "status"],
        vec!["puppet", "count"],
        vec!["puppet", "summary"],
        vec!["puppet", "runonce"],
        vec!["puppet", "runall"],
        vec!["puppet", "enable"],
        vec!["puppet", "disable"],
        vec!["puppet", "restart"],
        vec!["permit", "list"],
        vec!["permit", "show"],
        vec!["permit", "release"],
        vec!["provision", "host"],
        vec!["provision", "user-data"],
        vec!["schema"],
        vec!["plugin", "list"],
        vec!["plugin", "doc"],
        vec!["plugin", "fetch"],
        vec!["plugin", "generate"],
        vec!["plugin", "check"],
        vec!["plugin", "pack"],
        vec!["plugin", "install"],
        vec!["plugin", "remove"],
    ] {
        let page = page(&path);
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
