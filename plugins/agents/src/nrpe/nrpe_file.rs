//! Parses a file of NRPE's configuration into the directives that matter here. Reads no files.

use std::path::PathBuf;

use muster_contract::nrpe::is_command_name;

/// A directive of a file, in order of the lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NrpeDirective {
    /// `command[NAME]=LINE`
    Command { name: String, line: String },
    /// `include=FILE`, also `include_file=FILE`
    Include(PathBuf),
    /// `include_dir=DIRECTORY`
    IncludeDirectory(PathBuf),
    /// `dont_blame_nrpe=1`: callers may give arguments.
    AllowArguments(bool),
    /// `nrpe_user=USER`
    User(String),
    /// `nrpe_group=GROUP`
    Group(String),
    /// `command_prefix=WORDS`: the begin of each command line.
    CommandPrefix(String),
}

/// Comments, other directives, and commands that callers cannot name are left out.
pub fn parse_nrpe_file(text: &str) -> Vec<NrpeDirective> {
    text.lines().filter_map(parse_line).collect()
}

/// A line, read as NRPE reads it: a blank before `=` belongs to the name, and one after it to the value.
fn parse_line(line: &str) -> Option<NrpeDirective> {
    let line = line.trim_matches(is_blank);
    if line.starts_with('#') {
        return None;
    }
    let (name, value) = line.trim_start_matches('=').split_once('=')?;
    if value.is_empty() {
        return None;
    }
    let path = || PathBuf::from(value);
    let text = || value.to_owned();
    match name {
        "include" | "include_file" => Some(NrpeDirective::Include(path())),
        "include_dir" => Some(NrpeDirective::IncludeDirectory(path())),
        "dont_blame_nrpe" => Some(NrpeDirective::AllowArguments(leading_number(value) == 1)),
        "nrpe_user" => Some(NrpeDirective::User(text())),
        "nrpe_group" => Some(NrpeDirective::Group(text())),
        "command_prefix" => Some(NrpeDirective::CommandPrefix(text())),
        _ => {
            let name = command_name(name).filter(|name| is_command_name(name))?;
            Some(NrpeDirective::Command { name: name.to_owned(), line: text() })
        }
    }
}

/// The name in `command[NAME]`; as in NRPE, what is before `command[` and after `]` does not count.
fn command_name(name: &str) -> Option<&str> {
    let (_, rest) = name.contains("command[").then(|| name.split_once('['))??;
    rest.trim_start_matches(']').split(']').next()
}

/// The characters of C's `isspace`.
fn is_blank(c: char) -> bool {
    c.is_ascii_whitespace() || c == '\x0b'
}

/// The number at the begin of a text, as C's `atoi` reads it; 0 if there is none.
pub(crate) fn leading_number(text: &str) -> i32 {
    let text = text.trim_start_matches(is_blank);
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let length = digits.bytes().take_while(u8::is_ascii_digit).count();
    let number = digits.get(..length).unwrap_or_default().parse().unwrap_or(0);
    if is_negative { -number } else { number }
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
        let text = "# comment\n\nserver_port=5666\nallowed_hosts=127.0.0.1\n  nrpe_user=nagios \n\
                    nrpe_group=adm\ncommand_prefix=/usr/bin/sudo -n\n\
                    dont_blame_nrpe=0\ncommand[check_load]=/usr/lib/check_load -w 1,1,1 # not a comment\n\
                    #command[off]=x\ninclude=/etc/nagios/local.cfg\ninclude_file=more.cfg\n\
                    include_dir=/etc/nagios/nrpe.d/\ninclude_dir=\nno directive\ndont_blame_nrpe=1\n";
        assert_eq!(
            parse_nrpe_file(text),
            [
                NrpeDirective::User("nagios".to_owned()),
                NrpeDirective::Group("adm".to_owned()),
                NrpeDirective::CommandPrefix("/usr/bin/sudo -n".to_owned()),
                NrpeDirective::AllowArguments(false),
                command("check_load", "/usr/lib/check_load -w 1,1,1 # not a comment"),
                NrpeDirective::Include("/etc/nagios/local.cfg".into()),
                NrpeDirective::Include("more.cfg".into()),
                NrpeDirective::IncludeDirectory("/etc/nagios/nrpe.d/".into()),
                NrpeDirective::AllowArguments(true),
            ]
        );
    }

    /// Each line was tried with NRPE 4.1.0 of Debian 12: the name that `check_nrpe -c` must give, and the rest of the line.
    #[test]
    fn names_of_commands_are_those_of_nrpe() {
        for (line, expected) in [
            ("command[check.load]=x", Some(("check.load", "x"))),
            ("command[check load]=x", Some(("check load", "x"))),
            ("command[ spaced ]=x = y\r", Some((" spaced ", "x = y"))),
            ("command[sp] = x", Some(("sp", " x"))),
            ("command[open=x", Some(("open", "x"))),
            ("xcommand[weird]=x", Some(("weird", "x"))),
            ("command[a]b]=x", Some(("a", "x"))),
            ("command[]=x", None),
            // Callers cannot give this name: NRPE refuses it in requests.
            ("command[a;b]=x", None),
        ] {
            let expected: Vec<_> =
                expected.into_iter().map(|(name, line)| command(name, line)).collect();
            assert_eq!(parse_nrpe_file(line), expected, "{line}");
        }
    }

    /// NRPE does not know these directives, because a blank belongs to the name.
    #[test]
    fn names_of_directives_have_no_blanks() {
        for line in ["dont_blame_nrpe =1", "nrpe_user = nagios", "include =/x", "command_prefix ="]
        {
            assert_eq!(parse_nrpe_file(line), [], "{line}");
        }
    }

    #[test]
    fn only_one_allows_arguments() {
        for (value, allowed) in [
            ("1", true),
            (" 1", true),
            ("1 # comment", true),
            ("01", true),
            ("0", false),
            ("-1", false),
            ("yes", false),
            ("11", false),
        ] {
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
