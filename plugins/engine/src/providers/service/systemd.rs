//! Services through `systemctl`, or the commands of the resource.

use super::{
    ServiceOperation, ServiceProvider, ServiceState, UNMASK, init, query_status_line, run_checked,
    run_line, run_program,
};
use crate::error::{DescribeOperation as _, EngineError, Result};
use crate::resource::Resource;
use crate::resource_type::BoundResource;

const UNIT_SUFFIXES: [&str; 11] = [
    ".service",
    ".socket",
    ".timer",
    ".target",
    ".mount",
    ".automount",
    ".swap",
    ".path",
    ".device",
    ".slice",
    ".scope",
];

#[derive(Debug)]
pub struct SystemdServiceProvider;

impl ServiceProvider for SystemdServiceProvider {
    fn query_service(&self, resource: &BoundResource<'_>) -> Result<ServiceState> {
        let unit = unit_name(&resource.name);
        let properties = "--property=LoadState,ActiveState,UnitFileState,SourcePath";
        let argv = ["systemctl", "show", properties, "--", &unit];
        let output = run_program(resource, &argv)?;
        if !output.is_success() {
            return Err(EngineError::failed(resource, output.failure_text(&argv.join(" "))));
        }
        let text = output.stdout_text();
        let mut found = parse_properties(&unit, &text);
        if let Some(running) = query_status_line(resource)? {
            found.running = running;
        }
        // A unit generated from an init script is enabled by the script's links; `systemctl enable` passes it on to the tool that makes them.
        if let Some(script) = init_script_name(&text).filter(|_| found.enable == "generated") {
            let enabled = init::is_enabled_at_boot(resource.cx, script)
                .during(resource, "inspecting /etc/rc?.d")?;
            found.enable = enabled.to_string();
        }
        Ok(found)
    }

    fn run_operation(
        &self,
        resource: &BoundResource<'_>,
        operation: ServiceOperation,
    ) -> Result<()> {
        let unit = unit_name(&resource.name);
        let run_systemctl = |verb| run_checked(resource, &["systemctl", verb, "--", &unit]);
        let run_verb = |verb| match resource.get_text(verb) {
            Some(line) => run_line(resource, line),
            None => run_systemctl(verb),
        };
        // The steps of Puppet's provider, in its order.
        match operation {
            ServiceOperation::Start => {
                reload_changed_unit(resource, &unit)?;
                if !has_start_line(resource) {
                    run_systemctl("unmask")?;
                }
                run_verb("start")
            }
            ServiceOperation::Stop => run_verb("stop"),
            ServiceOperation::Restart => {
                reload_changed_unit(resource, &unit)?;
                run_verb("restart")
            }
            ServiceOperation::Enable => {
                run_systemctl("unmask")?;
                run_systemctl("enable")
            }
            ServiceOperation::Disable => {
                if resource.get_flag(UNMASK) {
                    run_systemctl("unmask")?;
                }
                run_systemctl("disable")
            }
            ServiceOperation::Mask => {
                if run_program(resource, &["systemctl", "cat", "--", &unit])?.is_success() {
                    run_systemctl("disable")?;
                }
                run_systemctl("mask")
            }
        }
    }

    fn list_names(&self, resource: &BoundResource<'_>) -> Result<Vec<String>> {
        let argv = ["systemctl", "list-unit-files", "--type=service", "--no-legend"];
        let argv = [&argv[..], &["--no-pager", "--full", "--all"]].concat();
        let names = run_program(resource, &argv)?.stdout_text();
        let names = names.lines().filter_map(|line| line.split_whitespace().next());
        // A template is not a service without an instance.
        Ok(names.filter(|name| !name.contains("@.")).map(str::to_owned).collect())
    }
}

/// Whether the resource starts the service by a command of its own, which leaves a mask as it is.
pub(crate) fn has_start_line(resource: &Resource) -> bool {
    resource.get("start").is_some()
}

/// systemd also expands `x` to `x.service`, but interprets a dot in the name as a unit suffix.
fn unit_name(name: &str) -> String {
    if UNIT_SUFFIXES.iter().any(|suffix| name.ends_with(suffix)) {
        name.to_owned()
    } else {
        format!("{name}.service")
    }
}

/// systemd reads a unit file that was changed since only after a reload; without it, the service would start with the earlier one.
fn reload_changed_unit(resource: &BoundResource<'_>, unit: &str) -> Result<()> {
    let argv = ["systemctl", "show", "--property=NeedDaemonReload", "--", unit];
    let text = run_program(resource, &argv)?.stdout_text();
    if property_value(&text, "NeedDaemonReload") == "yes" {
        run_checked(resource, &["systemctl", "daemon-reload"])?;
    }
    Ok(())
}

/// The name of the init script from which the unit was generated.
fn init_script_name(text: &str) -> Option<&str> {
    property_value(text, "SourcePath").strip_prefix("/etc/init.d/")
}

fn property_value<'t>(text: &'t str, key: &str) -> &'t str {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    line.unwrap_or_default().trim()
}

fn parse_properties(unit: &str, text: &str) -> ServiceState {
    let value = |key: &str| property_value(text, key);
    let enable = match value("UnitFileState") {
        "enabled" | "enabled-runtime" | "alias" => "true",
        "masked" => "mask",
        fixed @ ("static" | "indirect" | "generated" | "transient") => fixed,
        // Also a unit that is only linked, and one that is masked until the next boot: `systemctl is-enabled` fails for both.
        _ => "false",
    };
    let missing = value("LoadState") == "not-found";
    ServiceState {
        missing: missing.then(|| format!("a systemd unit {unit}")),
        running: matches!(value("ActiveState"), "active" | "reloading" | "refreshing"),
        enable: enable.to_owned(),
    }
}
