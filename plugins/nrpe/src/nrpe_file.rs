//! Parses a file of NRPE's configuration into the directives that matter here. Reads no files.

use std::path::PathBuf;

use muster_contract::nrpe::is_command_name;

/// A directive of a file, in order of the lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NrpeDirective {
    /// `command[NAME]=LINE`
    Command {
        /// The name.
        name: String,
        /// The command line.
        line: String,
    },
    /// `include=FILE`, also `include_file=FILE`
    Include(PathBuf),
    /// `include_dir=DIRECTORY`
    IncludeDirectory(PathBuf),
    /// `dont_blame_nrpe=1`: callers may give arguments.
    AllowArguments(bool),
    /// `nrpe_user=USER`
    User(String),
}

/// Parses a file. Comments, other directives, and commands that callers cannot name are left out.
pub fn parse_nrpe_file(text: &str) -> Vec<NrpeDirective> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<NrpeDirective> {
    let line = line.trim();
    if line.starts_with('#') {
        return None;
    }
    let (name, value) = line.split_once('=')?;
    let (name, value) = (name.trim(), value.trim());
    let path = || (!value.is_empty()).then(|| PathBuf::from(value));
    match name {
        "include" | "include_file" => path().map(NrpeDirective::Include),
        "include_dir" => path().map(NrpeDirective::IncludeDirectory),
        "dont_blame_nrpe" => Some(NrpeDirective::AllowArguments(value.parse() == Ok(1))),
        "nrpe_user" => (!value.is_empty()).then(|| NrpeDirective::User(value.to_owned())),
        _ => {
            let command = name.strip_prefix("command[")?.strip_suffix(']')?.trim();
            let (name, line) = (command.to_owned(), value.to_owned());
            is_command_name(command).then_some(NrpeDirective::Command { name, line })
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use muster_contract::nrpe::is_command_name;

    use super::{NrpeDirective, parse_nrpe_file};

    fn command(name: &str, line: &str) -> NrpeDirective {
        NrpeDirective::Command { name: name.to_owned(), line: line.to_owned() }
    }

    #[test]
    fn reads_commands_and_includes_and_ignores_the_rest() {
        let text = "# comment\n\nserver_port=5666\nallowed_hosts=127.0.0.1\n  nrpe_user = nagios\n\
                    dont_blame_nrpe=0\ncommand[check_load]=/usr/lib/check_load -w 1,1,1 # not a comment\n\
                    command[ spaced ] = x = y\r\ncommand[bad name]=x\ncommand[]=x\ncommand[a;b]=x\ncommand[open=x\n\
                    #command[off]=x\ninclude=/etc/nagios/local.cfg\ninclude_file=more.cfg\n\
                    include_dir=/etc/nagios/nrpe.d/\ninclude_dir=\nno directive\ndont_blame_nrpe=1\n";
        assert_eq!(
            parse_nrpe_file(text),
            [
                NrpeDirective::User("nagios".to_owned()),
                NrpeDirective::AllowArguments(false),
                command("check_load", "/usr/lib/check_load -w 1,1,1 # not a comment"),
                command("spaced", "x = y"),
                NrpeDirective::Include("/etc/nagios/local.cfg".into()),
                NrpeDirective::Include("more.cfg".into()),
                NrpeDirective::IncludeDirectory("/etc/nagios/nrpe.d/".into()),
                NrpeDirective::AllowArguments(true),
            ]
        );
    }

    #[test]
    fn only_one_allows_arguments() {
        for (value, allowed) in
            [("1", true), ("0", false), ("yes", false), ("11", false), ("", false)]
        {
            let directives = parse_nrpe_file(&format!("dont_blame_nrpe={value}"));
            assert_eq!(directives, [NrpeDirective::AllowArguments(allowed)], "{value}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_accepted_and_names_are_valid(text in "([#a-z_ ]{0,8}(command\\[.{0,60}\\])?=?.{0,20}\n){0,6}") {
            for directive in parse_nrpe_file(&text) {
                if let NrpeDirective::Command { name, .. } = directive {
                    prop_assert!(is_command_name(&name));
                }
            }
        }
    }
}
