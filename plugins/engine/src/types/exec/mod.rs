//! `exec`: runs a command unless its guards prevent it.
//!
//! Guards are evaluated while reading state, in noop mode too, because they decide whether a change is needed. An exec with
//! `refreshonly` never runs on its own; in a catalog it runs when a resource that it subscribes to changes.

mod command;

use std::path::Path;
use std::time::{Duration, Instant};

use muster_system::command::CancelFlag;
use muster_system::process::pause;
use muster_system::{Command, CommandOutput, SystemError};

use crate::error::{DescribeOperation as _, EngineError, Result};
use crate::plan::{PropertyChange, ResourcePlan, ResourceState};
use crate::providers::paths;
use crate::resource::{Resource, name_values};
use crate::resource_type::{
    AutoRequire, BoundResource, CatalogResources, ResourceContext, ResourceType,
};
use crate::schema::AttributeKind::{AbsolutePath, Bool, Commands, Int, List, Seconds, Text, Word};
use crate::schema::{TypeSchema, parameter, property};

static SCHEMA: TypeSchema = TypeSchema {
    type_name: "exec",
    doc: "A command. It must be safe to run more than once; `creates`, `unless` and `onlyif` decide whether it runs.",
    namevar: "command",
    attributes: &[
        property("returns", List, "Exit codes that count as success.")
            .split_at_commas()
            .with_default("0"),
        parameter(
            "command",
            List,
            "The command line, or a list of program and arguments, which is run without a shell.",
        ),
        parameter("creates", List, "Paths; if one of them exists, the command does not run."),
        parameter(
            "unless",
            Commands,
            "Commands; if one of them exits with 0, the command does not run.",
        ),
        parameter(
            "onlyif",
            Commands,
            "Commands; the command runs only if all of them exit with 0.",
        ),
        parameter("refreshonly", Bool, "Whether the command runs only on a refresh."),
        parameter("refresh", Text, "The command to run on a refresh instead of `command`."),
        parameter("cwd", AbsolutePath, "Working directory; it must exist."),
        parameter("environment", List, "Environment settings `NAME=value`."),
        parameter("path", List, "Search path for programs; a list is joined with `:`."),
        parameter("user", Text, "User that runs the command, by name or UID."),
        parameter("group", Text, "Group that runs the command, by name or GID."),
        parameter("umask", Text, "File creation mask, octal."),
        parameter("timeout", Seconds, "Timeout of each try in seconds; 0 means no limit.")
            .with_default("300"),
        parameter("tries", Int, "Maximum number of tries.").with_default("1"),
        parameter("try_sleep", Seconds, "Seconds between tries.").with_default("0"),
        parameter(
            "logoutput",
            Word(&["true", "false", "on_failure"]),
            "Whether to log the output.",
        )
        .with_default("on_failure"),
        parameter(
            "provider",
            Word(&["posix", "shell"]),
            "`shell` runs every command with `/bin/sh -c`.",
        )
        .with_default("posix"),
    ],
};

/// Interval at which a wait between tries checks the cancel flag.
const CANCEL_POLL_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub struct ExecResourceType;

impl ResourceType for ExecResourceType {
    fn schema(&self) -> &'static TypeSchema {
        &SCHEMA
    }

    fn check(&self, resource: Resource) -> Result<Resource> {
        command::check_command(&resource)?;
        if resource.get_int("tries").is_some_and(|tries| tries < 1) {
            return Err(EngineError::invalid_value(&resource, "tries", "is less than 1"));
        }
        let is_code = |code: &str| code.parse::<u8>().is_ok();
        resource.check_items("returns", "exit codes from 0 to 255", is_code)?;
        if resource.get_list("returns").is_empty() {
            let problem = "is empty, must contain at least one exit code";
            return Err(EngineError::invalid_value(&resource, "returns", problem));
        }
        resource.check_items("creates", "absolute paths", |path| path.starts_with('/'))?;
        Ok(resource)
    }

    /// `returns` is `notrun` if the command should run, otherwise equal to the desired value.
    fn read_state(&self, resource: &BoundResource<'_>) -> Result<ResourceState> {
        let returns = match resource.get("returns") {
            Some(desired) if resource.get_flag("refreshonly") || !guards_allow(resource)? => {
                desired.clone()
            }
            _ => "notrun".into(),
        };
        Ok(ResourceState { values: name_values([("returns", returns)]) })
    }

    fn plan(&self, resource: &Resource, state: &ResourceState) -> ResourcePlan {
        let mut plan = ResourcePlan::compare(&SCHEMA, resource, state);
        for change in &mut plan.changes {
            "executed successfully".clone_into(&mut change.message);
        }
        plan
    }

    fn apply_change(
        &self,
        cx: &ResourceContext<'_>,
        plan: &ResourcePlan,
        _: &PropertyChange,
    ) -> Result<()> {
        run_resource(&cx.bind(&plan.resource))
    }

    fn supports_refresh(&self) -> bool {
        true
    }

    /// Runs the `refresh` command if set, otherwise the command, unless a guard prevents it.
    fn refresh(&self, resource: &BoundResource<'_>) -> Result<()> {
        if !guards_allow(resource)? {
            return Ok(());
        }
        match resource.get_text("refresh") {
            Some(line) => run_line(resource, line, "refresh").map(drop),
            None => run_resource(resource),
        }
    }

    /// The working directory, each absolute path at the start of or quoted in the command and its guards, and the user.
    fn autorequires(&self, resource: &Resource, _: &dyn CatalogResources) -> Vec<AutoRequire> {
        let mut targets: Vec<AutoRequire> = Vec::new();
        targets.extend(resource.get_text("cwd").map(|cwd| ("file", cwd.to_owned())));
        for name in ["command", "onlyif", "unless"] {
            let lines = resource.get_list(name);
            // A list contains program and arguments; only the program is a dependency.
            let lines = if name == "command" { lines.get(..1).unwrap_or_default() } else { &lines };
            let files = lines.iter().filter_map(|line| command::leading_path(line));
            targets.extend(files.map(|file| ("file", file.to_owned())));
        }
        let is_name = |user: &&str| !user.bytes().all(|digit| digit.is_ascii_digit());
        let user = resource.get_text("user").filter(is_name);
        targets.extend(user.map(|user| ("user", user.to_owned())));
        targets
    }
}

/// Runs the command with the configured number of tries.
fn run_resource(resource: &BoundResource<'_>) -> Result<()> {
    resource.cx.cache.packages.clear();
    let output = run_tries(resource)?;
    let is_success = is_expected_exit(resource, &output);
    let logoutput = resource.get_text("logoutput");
    if logoutput == Some("true") || (logoutput == Some("on_failure") && !is_success) {
        output.combined_text().lines().for_each(|line| resource.cx.log_line(line));
    }
    if is_success {
        return Ok(());
    }
    let (line, returns) = (command::command_text(resource), resource.get_list("returns").join(","));
    let problem = format!("'{line}' returned {} instead of one of [{returns}]", output.code);
    Err(EngineError::failed(resource, problem))
}

/// Whether all guards except `refreshonly` allow the command, evaluated in Puppet's order; stops at the first refusal.
fn guards_allow(resource: &BoundResource<'_>) -> Result<bool> {
    for path in resource.get_list("creates") {
        let found = paths::follow_links(resource.cx.system, Path::new(path));
        if found.during(resource, format_args!("inspecting {path}"))?.is_some() {
            return Ok(false);
        }
    }
    for (guard, blocks_on_success) in [("unless", true), ("onlyif", false)] {
        for line in resource.get_list(guard) {
            let output = run_line(resource, line, &format!("check '{line}'"))?;
            if output.is_success() == blocks_on_success {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Output of the last try: the first success, or the last failure.
fn run_tries(resource: &BoundResource<'_>) -> Result<CommandOutput> {
    let tries = resource.get_int("tries").unwrap_or(1);
    let delay = duration_parameter(resource, "try_sleep").unwrap_or_default();
    let run_once = || run_command(resource, command::main_command(resource)?, "command");
    let mut output = run_once()?;
    for _ in 1..tries {
        if is_expected_exit(resource, &output) {
            break;
        }
        wait_unless_cancelled(delay, &resource.cx.cancel);
        output = run_once()?;
    }
    Ok(output)
}

fn is_expected_exit(resource: &Resource, output: &CommandOutput) -> bool {
    resource.get_list("returns").contains(&output.code.to_string().as_str())
}

fn run_line(resource: &BoundResource<'_>, line: &str, label: &str) -> Result<CommandOutput> {
    run_command(resource, command::command_from_line(resource, line)?, label)
}

/// Runs a command or a guard. `label` starts the timeout message.
fn run_command(
    resource: &BoundResource<'_>,
    mut command: Command,
    label: &str,
) -> Result<CommandOutput> {
    command.timeout = duration_parameter(resource, "timeout");
    let program = command.program_name().to_owned();
    let output = resource.cx.system.run_command(&command).map_err(|error| match error {
        SystemError::Timeout { after, .. } => {
            let limit = after.as_secs_f64();
            EngineError::failed(resource, format!("{label} exceeded its timeout of {limit} s"))
        }
        error if error.is_not_found() => {
            let is_missing =
                |cwd: &&Path| matches!(paths::follow_links(resource.cx.system, cwd), Ok(None));
            let problem = match command.cwd.as_deref().filter(is_missing) {
                Some(cwd) => format!("working directory {} does not exist", cwd.display()),
                None => format!("could not find command '{program}'"),
            };
            EngineError::failed(resource, problem)
        }
        other => EngineError::system(resource, format_args!("running {label}"), other),
    })?;
    // The shell exits with 127 for a missing program. Always an error, even for a guard.
    if output.code == 127 {
        let problem = format!("{label} returned 127: {}", output.combined_text().trim());
        return Err(EngineError::failed(resource, problem));
    }
    Ok(output)
}

/// A duration; `None` if it is 0 or not given.
fn duration_parameter(resource: &Resource, name: &str) -> Option<Duration> {
    let seconds = resource.get_text(name)?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok().filter(|duration| !duration.is_zero())
}

/// Sleeps until the pause is over or the flag is set.
fn wait_unless_cancelled(duration: Duration, cancel: &CancelFlag) {
    let deadline = Instant::now() + duration;
    while !cancel.is_cancelled() {
        match deadline.checked_duration_since(Instant::now()) {
            Some(left) if !left.is_zero() => pause(left.min(CANCEL_POLL_INTERVAL)),
            _ => break,
        }
    }
}
