//! Services with scripts in `/etc/init.d`, enabled by links in `/etc/rc?.d`; without a script, by the
//! commands of the resource.

use std::path::{Path, PathBuf};

use muster_system::error::found_or_none;
use muster_system::{FileAttributes, SystemResult};

use super::{
    ServiceOperation, ServiceProvider, ServiceState, process_pattern, query_status_line,
    run_checked, run_line, run_program,
};
use crate::error::{DescribeOperation as _, EngineError, Result};
use crate::providers::paths;
use crate::resource::Resource;
use crate::resource_type::{BoundResource, ResourceContext};

const SCRIPT_DIRECTORY: &str = "/etc/init.d";
/// Run levels in which a service is started, and in which it is stopped, as in Debian.
const START_RUNLEVELS: [&str; 4] = ["2", "3", "4", "5"];
const KILL_RUNLEVELS: [&str; 3] = ["0", "1", "6"];
/// The run level whose scripts start before all others.
const BOOT_RUNLEVEL: &str = "S";

#[derive(Debug)]
pub struct InitServiceProvider;

impl ServiceProvider for InitServiceProvider {
    fn query_service(&self, resource: &BoundResource<'_>) -> Result<ServiceState> {
        let script = script_path(resource);
        let script_exists = paths::follow_links(resource.cx.system, Path::new(&script))
            .during(resource, format_args!("inspecting {script}"))?
            .is_some();
        let is_set = |name| resource.get(name).is_some();
        let has_commands = (is_set("start") && is_set("stop")) || is_set("binary");
        let missing = !script_exists && !has_commands;
        let running = if let Some(running) = query_status_line(resource)? {
            running
        } else if resource.get_text("hasstatus") == Some("false") || !script_exists {
            !missing && in_process_table(resource)?
        } else {
            run_program(resource, &[&script, "status"])?.is_success()
        };
        let enabled = !runlevel_links(resource.cx, &resource.name, 'S')
            .during(resource, "inspecting /etc/rc?.d")?
            .is_empty();
        let searched = format!("an init script {script} (systemd does not run on this machine)");
        let missing = missing.then_some(searched);
        Ok(ServiceState { missing, running, enable: enabled.to_string() })
    }

    fn run_operation(
        &self,
        resource: &BoundResource<'_>,
        operation: ServiceOperation,
    ) -> Result<()> {
        let run_verb = |verb: &str| {
            let binary = resource.get_text("binary").filter(|_| verb == "start");
            match resource.get_text(verb).or(binary) {
                Some(line) => run_line(resource, line),
                None => run_checked(resource, &[&script_path(resource), verb]),
            }
        };
        match operation {
            ServiceOperation::Start => run_verb("start"),
            ServiceOperation::Stop => run_verb("stop"),
            ServiceOperation::Restart
                if resource.get("restart").is_some()
                    || resource.get_text("hasrestart") == Some("true") =>
            {
                run_verb("restart")
            }
            // As in Puppet, `restart` of a script is used only if the resource declares it.
            ServiceOperation::Restart => {
                run_verb("stop")?;
                run_verb("start")
            }
            ServiceOperation::Enable => set_enabled(resource, true),
            ServiceOperation::Disable => set_enabled(resource, false),
            ServiceOperation::Mask => {
                let problem = "init scripts cannot be masked; use `enable=false`";
                Err(EngineError::failed(resource, problem))
            }
        }
    }

    fn list_names(&self, resource: &BoundResource<'_>) -> Result<Vec<String>> {
        let operation = format!("listing {SCRIPT_DIRECTORY}");
        let names = found_or_none(resource.cx.system.read_dir(Path::new(SCRIPT_DIRECTORY)))
            .during(resource, operation)?
            .unwrap_or_default();
        // Files of the init system itself, and leftovers of upgrades.
        let is_excluded = |name: &String| {
            matches!(name.as_str(), "README" | "skeleton" | "rc" | "rcS" | "functions")
                || name.contains(".dpkg-")
                || name.starts_with('.')
        };
        Ok(names.into_iter().filter(|name| !is_excluded(name)).collect())
    }
}

fn script_path(resource: &Resource) -> String {
    format!("{SCRIPT_DIRECTORY}/{}", resource.name)
}

/// Whether the pattern matches the command line of any process.
fn in_process_table(resource: &BoundResource<'_>) -> Result<bool> {
    let pattern = process_pattern(resource)?;
    let output = run_program(resource, &["ps", "-eo", "args="])?;
    Ok(output.is_success() && output.stdout_text().lines().any(|line| pattern.is_match(line)))
}

/// Whether any run level starts the service, the one before all others (`S`) included.
pub(super) fn is_enabled_at_boot(cx: &ResourceContext<'_>, name: &str) -> SystemResult<bool> {
    let links = runlevel_links(cx, name, 'S')?;
    Ok(!links.is_empty() || !links_in_level(cx, name, 'S', BOOT_RUNLEVEL)?.is_empty())
}

/// Links with that letter to the service, in all run levels.
fn runlevel_links(
    cx: &ResourceContext<'_>,
    name: &str,
    letter: char,
) -> SystemResult<Vec<PathBuf>> {
    let mut links = Vec::new();
    for level in START_RUNLEVELS.iter().chain(&KILL_RUNLEVELS) {
        links.extend(links_in_level(cx, name, letter, level)?);
    }
    Ok(links)
}

fn links_in_level(
    cx: &ResourceContext<'_>,
    name: &str,
    letter: char,
    level: &str,
) -> SystemResult<Vec<PathBuf>> {
    let directory = PathBuf::from(format!("/etc/rc{level}.d"));
    let entries = found_or_none(cx.system.read_dir(&directory))?.unwrap_or_default();
    // The letter, two digits and the name.
    let is_link = |entry: &&String| {
        let digits = entry.strip_prefix(letter).and_then(|rest| rest.strip_suffix(name));
        digits.is_some_and(|digits| {
            digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_digit())
        })
    };
    Ok(entries.iter().filter(is_link).map(|entry| directory.join(entry)).collect())
}

/// `update-rc.d` handles dependencies between services; in a scratch root the links are created here.
fn set_enabled(resource: &BoundResource<'_>, on: bool) -> Result<()> {
    if resource.cx.system.root() == Path::new("/") {
        let verb = if on { "enable" } else { "disable" };
        run_checked(resource, &["update-rc.d", &resource.name, "defaults"])?;
        return run_checked(resource, &["update-rc.d", &resource.name, verb]);
    }
    replace_runlevel_links(resource.cx, &resource.name, on)
        .during(resource, "changing the links in /etc/rc?.d")
}

fn replace_runlevel_links(cx: &ResourceContext<'_>, name: &str, on: bool) -> SystemResult<()> {
    for letter in ['S', 'K'] {
        for path in runlevel_links(cx, name, letter)? {
            cx.system.remove_file(&path)?;
        }
    }
    let target = format!("../init.d/{name}");
    for level in START_RUNLEVELS.iter().chain(&KILL_RUNLEVELS) {
        let directory = PathBuf::from(format!("/etc/rc{level}.d"));
        paths::create_dirs(cx.system, &directory, &FileAttributes::default())?;
        let letter = if on && START_RUNLEVELS.contains(level) { 'S' } else { 'K' };
        let link = directory.join(format!("{letter}01{name}"));
        cx.system.create_symlink(Path::new(&target), &link)?;
    }
    Ok(())
}
