//! `exec`: runs a command unless its guards say that it need not.
//!
//! The guards are asked while reading, in noop too: they decide whether there is something to do. Alone, an exec with
//! `refreshonly` never runs; in a catalog, a change of what it subscribes to makes it run.

mod command;

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use muster_system::command::Cancel;
use muster_system::{Command, Output, SystemError};

use crate::error::EngineError;
use crate::plan::{Change, Plan, State};
use crate::providers::paths;
use crate::resource::{Resource, Value, Values};
use crate::resource_type::{Cx, ResourceType, Siblings, Wanted};
use crate::schema::{Attribute, Kind, Schema};

static SCHEMA: Schema = Schema {
    type_name: "exec",
    doc: "A command that is run unless it need not. It should be safe to run twice; `creates`, `unless` or `onlyif` say when it is done.",
    namevar: "command",
    attributes: &[
        Attribute::property("returns", Kind::List, "Exit codes that are a success.").or("0"),
        Attribute::parameter(
            "command",
            Kind::List,
            "The command line, or program and arguments as a list, which sees no shell.",
        ),
        Attribute::parameter(
            "creates",
            Kind::List,
            "Paths; if one of them exists, the command is not run.",
        ),
        Attribute::parameter(
            "unless",
            Kind::Commands,
            "Commands; if one of them ends with 0, the command is not run.",
        ),
        Attribute::parameter(
            "onlyif",
            Kind::Commands,
            "Commands; unless all of them end with 0, the command is not run.",
        ),
        Attribute::parameter(
            "refreshonly",
            Kind::Bool,
            "Whether only a change of another resource makes it run.",
        ),
        Attribute::parameter(
            "refresh",
            Kind::Text,
            "What is run on a refresh instead of the command.",
        ),
        Attribute::parameter(
            "cwd",
            Kind::Path,
            "Where it runs; the directory must exist.",
        ),
        Attribute::parameter("environment", Kind::List, "Settings `NAME=value`."),
        Attribute::parameter(
            "path",
            Kind::List,
            "Where programs are looked up; lists are joined by `:`.",
        ),
        Attribute::parameter("user", Kind::Text, "Who runs it, by name or number."),
        Attribute::parameter("group", Kind::Text, "With which group, by name or number."),
        Attribute::parameter("umask", Kind::Text, "The file creation mask, octal."),
        Attribute::parameter(
            "timeout",
            Kind::Seconds,
            "Longest run of each try in seconds; 0 is no limit.",
        )
        .or("300"),
        Attribute::parameter("tries", Kind::Int, "How often it is tried.").or("1"),
        Attribute::parameter("try_sleep", Kind::Seconds, "Seconds between two tries.").or("0"),
        Attribute::parameter(
            "logoutput",
            Kind::Word(&["true", "false", "on_failure"]),
            "Whether the output is told.",
        )
        .or("on_failure"),
        Attribute::parameter(
            "provider",
            Kind::Word(&["posix", "shell"]),
            "`shell` gives every command to `/bin/sh -c`.",
        )
        .or("posix"),
    ],
};

/// How often a wait between tries looks at the cancel flag.
const ATTENTION: Duration = Duration::from_millis(50);

/// The type.
#[derive(Debug)]
pub struct Exec;

impl ResourceType for Exec {
    fn schema(&self) -> &'static Schema {
        &SCHEMA
    }

    fn check(&self, resource: Resource) -> Result<Resource, EngineError> {
        command::check(&resource)?;
        if resource
            .get("tries")
            .and_then(Value::as_int)
            .is_some_and(|tries| tries < 1)
        {
            return Err(EngineError::invalid(&resource, "tries", "is less than 1"));
        }
        let returns = resource.list("returns");
        if let Some(code) = returns.iter().find(|code| code.parse::<u8>().is_err()) {
            let problem = format!("contains `{code}`, must be exit codes from 0 to 255");
            return Err(EngineError::invalid(&resource, "returns", problem));
        }
        if returns.is_empty() {
            return Err(EngineError::invalid(
                &resource,
                "returns",
                "is empty; no exit code would be a success",
            ));
        }
        let relative = |path: &&str| !path.starts_with('/');
        if let Some(path) = resource.list("creates").into_iter().find(relative) {
            let problem = format!("contains `{path}`, must be absolute paths");
            return Err(EngineError::invalid(&resource, "creates", problem));
        }
        Ok(resource)
    }

    /// `returns` is `notrun` when there is something to do, and as desired when there is not.
    fn read(&self, cx: &Cx<'_>, resource: &Resource) -> Result<State, EngineError> {
        let notrun = Value::from("notrun");
        let returns = match resource.get("returns") {
            Some(desired) if !wanted(cx, resource)? => desired.clone(),
            _ => notrun,
        };
        Ok(State {
            values: Values::from([("returns".to_owned(), returns)]),
        })
    }

    fn plan(&self, resource: &Resource, state: &State) -> Plan {
        let mut plan = Plan::compare(&SCHEMA, resource, state);
        for change in &mut plan.changes {
            "executed successfully".clone_into(&mut change.message);
        }
        plan
    }

    fn apply(&self, cx: &Cx<'_>, plan: &Plan, _: &Change) -> Result<(), EngineError> {
        execute(cx, &plan.resource)
    }

    fn refreshes(&self) -> bool {
        true
    }

    /// Runs the command, or the one that is meant for refreshes, unless a guard forbids it.
    fn refresh(&self, cx: &Cx<'_>, resource: &Resource) -> Result<(), EngineError> {
        if !allowed(cx, resource)? {
            return Ok(());
        }
        match resource.text("refresh") {
            Some(line) => {
                run(
                    cx,
                    resource,
                    command::of_line(cx, resource, line)?,
                    "refresh",
                )?;
                Ok(())
            }
            None => execute(cx, resource),
        }
    }

    /// The working directory, every absolute path that the command and its checks begin with or name in quotes, and the user.
    fn autorequires(&self, resource: &Resource, _: &dyn Siblings) -> Vec<Wanted> {
        let mut wanted: Vec<Wanted> = Vec::new();
        wanted.extend(resource.text("cwd").map(|cwd| ("file", cwd.to_owned())));
        for name in ["command", "onlyif", "unless"] {
            let lines = resource.list(name);
            // A list is program and arguments: only the program is looked at.
            let lines = if name == "command" {
                lines.get(..1).unwrap_or_default()
            } else {
                &lines
            };
            let files = lines.iter().filter_map(|line| command::file(line));
            wanted.extend(files.map(|file| ("file", file.to_owned())));
        }
        let by_name = |user: &&str| !user.bytes().all(|digit| digit.is_ascii_digit());
        wanted.extend(
            resource
                .text("user")
                .filter(by_name)
                .map(|user| ("user", user.to_owned())),
        );
        wanted
    }
}

/// Runs the command, as often as need be.
fn execute(cx: &Cx<'_>, resource: &Resource) -> Result<(), EngineError> {
    cx.memo.packages.forget();
    let output = run_tries(cx, resource)?;
    let good = succeeded(resource, &output);
    if matches!(
        (resource.text("logoutput"), good),
        (Some("true"), _) | (Some("on_failure"), false)
    ) {
        output.text().lines().for_each(|line| cx.say(line));
    }
    if good {
        return Ok(());
    }
    let (line, returns) = (command::line(resource), resource.list("returns").join(","));
    let problem = format!(
        "'{line}' returned {} instead of one of [{returns}]",
        output.code
    );
    Err(EngineError::failed(resource, problem))
}

/// Whether every guard lets the command run, asked in Puppet's order and only as far as needed.
fn wanted(cx: &Cx<'_>, resource: &Resource) -> Result<bool, EngineError> {
    Ok(!resource.flag("refreshonly") && allowed(cx, resource)?)
}

/// Whether every guard but `refreshonly` lets it run.
fn allowed(cx: &Cx<'_>, resource: &Resource) -> Result<bool, EngineError> {
    for path in resource.list("creates") {
        let found = paths::follow(cx.system, Path::new(path));
        if found
            .map_err(EngineError::during(resource, format!("looking at {path}")))?
            .is_some()
        {
            return Ok(false);
        }
    }
    for (guard, blocks_on_success) in [("unless", true), ("onlyif", false)] {
        for line in resource.list(guard) {
            let output = run(
                cx,
                resource,
                command::of_line(cx, resource, line)?,
                &format!("check '{line}'"),
            )?;
            if output.success() == blocks_on_success {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// The last try's output: the first good one, or the last bad one.
fn run_tries(cx: &Cx<'_>, resource: &Resource) -> Result<Output, EngineError> {
    let tries = resource.get("tries").and_then(Value::as_int).unwrap_or(1);
    let pause = seconds(resource, "try_sleep").unwrap_or_default();
    let once = || run(cx, resource, command::of_resource(cx, resource)?, "command");
    let mut output = once()?;
    for _ in 1..tries {
        if succeeded(resource, &output) {
            break;
        }
        wait(pause, &cx.cancel);
        output = once()?;
    }
    Ok(output)
}

fn succeeded(resource: &Resource, output: &Output) -> bool {
    resource
        .list("returns")
        .contains(&output.code.to_string().as_str())
}

/// Runs a command or a check. `what` begins the message of a timeout.
fn run(
    cx: &Cx<'_>,
    resource: &Resource,
    mut command: Command,
    what: &str,
) -> Result<Output, EngineError> {
    command.timeout = seconds(resource, "timeout");
    let program = command.program().to_owned();
    let output = cx.system.run(&command).map_err(|error| match error {
        SystemError::Timeout { after, .. } => {
            let limit = after.as_secs_f64();
            EngineError::failed(
                resource,
                format!("{what} exceeded its timeout of {limit} s"),
            )
        }
        error if error.is_not_found() => {
            let place = command
                .cwd
                .as_deref()
                .filter(|cwd| matches!(paths::follow(cx.system, cwd), Ok(None)));
            EngineError::failed(
                resource,
                match place {
                    Some(cwd) => format!("working directory {} does not exist", cwd.display()),
                    None => format!("could not find command '{program}'"),
                },
            )
        }
        other => EngineError::during(resource, format!("running {what}"))(other),
    })?;
    // The shell's word for a missing program. It never is a verdict, not even of a check.
    if output.code == 127 {
        return Err(EngineError::failed(
            resource,
            format!("{what} returned 127: {}", output.text().trim()),
        ));
    }
    Ok(output)
}

/// A duration; `None` when it is 0 or not given.
fn seconds(resource: &Resource, name: &str) -> Option<Duration> {
    let seconds = resource.text(name)?.parse().ok()?;
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|duration| !duration.is_zero())
}

/// Lets time pass, but not after the caller has given up.
fn wait(pause: Duration, cancel: &Cancel) {
    let end = Instant::now() + pause;
    while !cancel.is_cancelled() {
        match end.checked_duration_since(Instant::now()) {
            Some(left) if !left.is_zero() => thread::park_timeout(left.min(ATTENTION)),
            _ => break,
        }
    }
}
