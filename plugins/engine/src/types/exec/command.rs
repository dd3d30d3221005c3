//! Splits a command line into program and arguments, as Puppet's `posix` and `shell` providers do.

use std::path::PathBuf;

use muster_system::Command;

use crate::error::{DescribeOperation as _, EngineError, Result};
use crate::providers::account_names::{self, IdLookup};
use crate::resource::{Resource, ResourceValue};
use crate::resource_type::BoundResource;

/// Characters that a shell does not take literally. `=` counts in the first word only.
const SHELL_METACHARACTERS: &str = "*?{}[]<>()~&|\\$;'`\"\n#%";
/// Shell keywords and builtins; Ruby's list, after POSIX.
const SHELL_WORDS: [&str; 31] = [
    "!", ".", ":", "break", "case", "continue", "do", "done", "elif", "else", "esac", "eval",
    "exec", "exit", "export", "fi", "for", "if", "in", "readonly", "return", "set", "shift",
    "then", "times", "trap", "unset", "until", "while", "{", "}",
];

/// Checks that need no access to the machine: qualified programs, environment, umask.
pub(super) fn check_command(resource: &Resource) -> Result<()> {
    let mut lines = vec![("command", first_word(resource))];
    lines.extend(resource.get_text("refresh").map(|line| ("refresh", line.to_owned())));
    for guard in ["unless", "onlyif"] {
        lines.extend(resource.get_list(guard).into_iter().map(|line| (guard, line.to_owned())));
    }
    let posix = resource.get_text("provider") != Some("shell");
    for (name, line) in lines {
        let program = program_word(&line);
        if program.is_empty() {
            return Err(EngineError::invalid_value(resource, name, "is empty, must be a command"));
        }
        if posix && !program.starts_with('/') && resource.get("path").is_none() {
            let problem = format!(
                "begins with `{program}`, which is not an absolute path; specify one, or set `path`"
            );
            return Err(EngineError::invalid_value(resource, name, problem));
        }
    }
    resource.check_items("environment", "`NAME=value`", |setting| {
        let name = setting.split_once('=').map_or("", |(name, _)| name);
        name.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
    })?;
    resource.check_text("umask", "octal, such as `022`", |text| parse_umask(text).is_some())
}

pub(super) fn main_command(resource: &BoundResource<'_>) -> Result<Command> {
    match resource.get("command") {
        Some(ResourceValue::List(words)) if words.len() > 1 => {
            command_from_argv(resource, words.clone())
        }
        _ => command_from_line(resource, &first_word(resource)),
    }
}

pub(super) fn command_from_line(resource: &BoundResource<'_>, line: &str) -> Result<Command> {
    let argv = if resource.get_text("provider") == Some("shell") || needs_shell(line) {
        vec!["/bin/sh".to_owned(), "-c".to_owned(), line.to_owned()]
    } else {
        line.split_whitespace().map(str::to_owned).collect()
    };
    command_from_argv(resource, argv)
}

/// The command as one string, for messages.
pub(super) fn command_text(resource: &Resource) -> String {
    match resource.get("command") {
        Some(ResourceValue::List(words)) => words.join(" "),
        _ => resource.title.clone(),
    }
}

fn first_word(resource: &Resource) -> String {
    resource.get_list("command").first().copied().unwrap_or(&resource.title).to_owned()
}

fn command_from_argv(resource: &BoundResource<'_>, argv: Vec<String>) -> Result<Command> {
    let cx = resource.cx;
    let mut command = Command::new(argv);
    if resource.get("path").is_some() {
        command.env.insert("PATH".to_owned(), resource.get_list("path").join(":"));
    }
    for setting in resource.get_list("environment") {
        let Some((name, value)) = split_setting(setting) else {
            cx.log_line(format!("Cannot understand environment setting \"{setting}\""));
            continue;
        };
        let previous = command.env.insert(name.to_owned(), value.to_owned());
        if previous.is_some() {
            cx.log_line(format!("Overriding environment setting '{name}' with '{value}'"));
        }
    }
    command.cwd = resource.get_text("cwd").map(PathBuf::from);
    command.umask = resource.get_text("umask").and_then(parse_umask);
    command.uid = lookup_id(resource, "user", account_names::resolve_uid)?;
    command.gid = lookup_id(resource, "group", account_names::resolve_gid)?;
    command.cancel = cx.cancel.clone();
    Ok(command)
}

fn lookup_id(resource: &BoundResource<'_>, name: &str, look_up: IdLookup) -> Result<Option<u32>> {
    let Some(account) = resource.get_text(name) else { return Ok(None) };
    let id = look_up(resource.cx, account)
        .during(resource, format_args!("looking up {name} {account}"))?;
    id.map(Some).ok_or_else(|| {
        let problem = format!("{name} `{account}` does not exist on this machine");
        EngineError::failed(resource, problem)
    })
}

/// Whether Ruby's `exec`, and therefore Puppet, would run the line through a shell.
fn needs_shell(line: &str) -> bool {
    let word = line.split_whitespace().next().unwrap_or_default();
    line.contains(|c| SHELL_METACHARACTERS.contains(c))
        || word.contains('=')
        || SHELL_WORDS.contains(&word)
}

/// The first word without quotes.
fn program_word(line: &str) -> String {
    let quoted =
        ['"', '\''].into_iter().find_map(|quote| line.strip_prefix(quote)?.split(quote).next());
    quoted.or_else(|| line.split_whitespace().next()).unwrap_or_default().to_owned()
}

fn split_setting(setting: &str) -> Option<(&str, &str)> {
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    setting.split_once('=').filter(|(name, _)| is_name(name))
}

fn parse_umask(text: &str) -> Option<u32> {
    u32::from_str_radix(text, 8).ok().filter(|mask| *mask <= 0o777 && text.len() <= 5)
}

pub(super) fn leading_path(line: &str) -> Option<&str> {
    let quoted = line.strip_prefix('"').and_then(|rest| Some(rest.split_once('"')?.0));
    let word = quoted.or_else(|| line.split_whitespace().next().filter(|_| line.starts_with('/')));
    word.filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::{needs_shell, program_word};

    #[test]
    fn shell_is_used_only_for_shell_syntax() {
        for line in
            ["/bin/date > /tmp/date", "A=b /bin/x", "exit 3", "/bin/echo $HOME", "/bin/a\n/bin/b"]
        {
            assert!(needs_shell(line), "{line}");
        }
        for line in ["/bin/true", "/bin/dd if=/dev/zero of=/tmp/x", "/usr/bin/test -e /x"] {
            assert!(!needs_shell(line), "{line}");
        }
    }

    #[test]
    fn quoted_program_keeps_its_spaces() {
        assert_eq!(program_word("'/opt/my app/run' now"), "/opt/my app/run");
        assert_eq!(program_word("/bin/date > x"), "/bin/date");
    }
}
