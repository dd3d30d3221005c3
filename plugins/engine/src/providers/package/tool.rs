//! Runs package managers non-interactively; errors include the lines in which the tool says what failed, and in which package.

use std::time::Duration;

use muster_system::error::found_or_none;
use muster_system::{Command, CommandOutput};
use serde::de::DeserializeOwned;

use crate::error::{DescribeOperation as _, EngineError, Result};
use crate::resource::Resource;
use crate::resource_type::{BoundResource, ResourceContext};

/// Timeout of one call: allows for a large upgrade over a slow link.
const TOOL_TIMEOUT: Duration = Duration::from_hours(1);
/// Output limit in bytes; sufficient for the package list of a large machine.
const MAX_OUTPUT_BYTES: usize = 16 * 1024 * 1024;

/// Maximum number of lines of a tool's errors, with their continuations.
const MAX_ERROR_LINES: usize = 20;
const MAX_ERROR_BYTES: usize = 2048;
/// The line after which dpkg lists the packages that failed.
const FAILED_PACKAGES_HEADING: &str = "Errors were encountered while processing:";

/// A tool command with the common settings.
pub(super) fn build_command(cx: &ResourceContext<'_>, argv: &[&str]) -> Command {
    let mut command = Command::new(argv.iter().copied());
    for (name, value) in [
        ("DEBIAN_FRONTEND", "noninteractive"),
        ("APT_LISTCHANGES_FRONTEND", "none"),
        ("APT_LISTBUGS_FRONTEND", "none"),
    ] {
        command.env.insert(name.to_owned(), value.to_owned());
    }
    command.timeout = Some(TOOL_TIMEOUT);
    command.output_limit = MAX_OUTPUT_BYTES;
    command.cancel = cx.cancel.clone();
    command
}

/// Runs a tool; the caller checks the exit code.
pub(super) fn run_tool(resource: &BoundResource<'_>, argv: &[&str]) -> Result<CommandOutput> {
    run_tool_command(resource, &build_command(resource.cx, argv))
}

/// Like `run_tool`, but fails on a non-zero exit code.
pub(super) fn run_query(resource: &BoundResource<'_>, argv: &[&str]) -> Result<CommandOutput> {
    require_success(resource, &argv.join(" "), run_tool(resource, argv)?)
}

pub(super) fn require_success(
    resource: &Resource,
    command_line: &str,
    output: CommandOutput,
) -> Result<CommandOutput> {
    if output.is_success() { Ok(output) } else { Err(tool_error(resource, command_line, &output)) }
}

/// Like `run_tool`, for a prepared command.
pub(super) fn run_tool_command(
    resource: &BoundResource<'_>,
    command: &Command,
) -> Result<CommandOutput> {
    let operation = format!("running {}", command.argv.join(" "));
    resource.cx.system.run_command(command).during(resource, operation)
}

/// Runs a command that changes packages and fails on a non-zero exit code. Clears the package cache.
pub(super) fn run_change(resource: &BoundResource<'_>, argv: &[&str]) -> Result<()> {
    run_change_command(resource, &build_command(resource.cx, argv)).map(drop)
}

/// Like `run_change`, for a prepared command; returns its output. The tool is never interrupted: it would leave packages half-configured.
pub(super) fn run_change_command(
    resource: &BoundResource<'_>,
    command: &Command,
) -> Result<CommandOutput> {
    resource.cx.cache.packages.clear();
    let command = &Command { uninterrupted: true, ..command.clone() };
    let output = run_tool_command(resource, command)?;
    require_success(resource, &command.argv.join(" "), output)
}

/// The file in `source`, for tools that cannot install otherwise.
pub(super) fn source_file<'a>(resource: &'a Resource, tool: &str) -> Result<&'a str> {
    resource.get_text("source").ok_or_else(|| {
        let problem = format!("You cannot install {tool} packages without a source");
        EngineError::failed(resource, problem)
    })
}

/// The error of a failed tool: its error output, or that another process holds its lock.
pub(super) fn tool_error(
    resource: &Resource,
    command_line: &str,
    output: &CommandOutput,
) -> EngineError {
    let text = output.combined_text();
    let lock_messages =
        ["Could not get lock", "Unable to acquire the dpkg", "frontend lock was locked"];
    if lock_messages.iter().any(|lock_message| text.contains(lock_message)) {
        let problem =
            "another process holds the lock of the package system; retry when it has finished";
        return EngineError::failed(resource, problem);
    }
    let errors = error_lines(&text);
    let message = if errors.is_empty() {
        text.lines().last().unwrap_or_default().to_owned()
    } else {
        errors.join("; ")
    };
    let blame = match failed_packages(&text).as_slice() {
        [] => String::new(),
        names if names.iter().any(|name| is_requested(resource, name)) => String::new(),
        names => format!(" because of other packages ({})", names.join(", ")),
    };
    let problem = format!("`{command_line}` ended with code {}{blame}: {message}", output.code);
    EngineError::failed(resource, problem)
}

/// The lines in which apt and dpkg say what failed, with the indented lines that continue them, up to the limits.
fn error_lines(text: &str) -> Vec<String> {
    let mut errors: Vec<String> = Vec::new();
    let (mut bytes, mut continues) = (0, false);
    for line in text.lines() {
        let starts = ["E: ", "dpkg: error", "The following packages have unmet dependencies"]
            .iter()
            .any(|beginning| line.starts_with(beginning));
        continues = starts || (continues && line.starts_with(' '));
        if !continues {
            continue;
        }
        let line = line.trim();
        bytes += line.len();
        if errors.len() == MAX_ERROR_LINES || bytes > MAX_ERROR_BYTES {
            errors.push("...".to_owned());
            break;
        }
        match errors.last_mut() {
            Some(last) if !starts => last.extend([" ", line]),
            _ => errors.push(line.to_owned()),
        }
    }
    errors
}

/// The packages that dpkg lists at its end as failed.
fn failed_packages(text: &str) -> Vec<&str> {
    let lines = text.lines().skip_while(|line| *line != FAILED_PACKAGES_HEADING).skip(1);
    lines.take_while(|line| line.starts_with(' ')).map(str::trim).collect()
}

/// Whether dpkg's name, which may have an architecture or be the path of a file, is that of the resource.
fn is_requested(resource: &Resource, name: &str) -> bool {
    let plain = |name: &str| name.split(':').next().unwrap_or_default().to_owned();
    plain(name) == plain(&resource.name) || resource.get_text("source") == Some(name)
}

/// The program to run: `command`, or the first of these names that is installed.
pub(super) fn find_program(resource: &BoundResource<'_>, names: &[&str]) -> Result<String> {
    let cx = resource.cx;
    if let Some(command) = resource.get_text("command").filter(|word| *word != "default") {
        return Ok(command.to_owned());
    }
    if let [only] = names {
        return Ok((*only).to_owned());
    }
    let (programs, key) = (&cx.cache.packages.programs, names.join(" "));
    if let Some(known) = programs.borrow().get(&key) {
        return Ok(known.clone());
    }
    for name in names {
        let output = cx.system.run_command(&build_command(cx, &[name, "--version"]));
        if found_or_none(output).during(resource, format_args!("running {name}"))?.is_some() {
            programs.borrow_mut().insert(key, (*name).to_owned());
            return Ok((*name).to_owned());
        }
    }
    let problem = format!(
        "none of {} is installed; install one, or set `command` to its path",
        names.join(", ")
    );
    Err(EngineError::failed(resource, problem))
}

/// Parses the JSON on standard output.
pub(super) fn parse_json<T: DeserializeOwned>(
    resource: &Resource,
    command_line: &str,
    output: &CommandOutput,
) -> Result<T> {
    serde_json::from_slice(&output.stdout).map_err(|error| {
        let problem = format!("cannot parse the output of `{command_line}`: {error}");
        EngineError::failed(resource, problem)
    })
}

pub(super) fn hold_unsupported_error(resource: &Resource, tool: &str) -> EngineError {
    EngineError::failed(resource, format!("{tool} cannot hold packages at their version"))
}
