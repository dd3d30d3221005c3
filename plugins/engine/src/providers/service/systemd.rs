//! Services through `systemctl`.

use super::{ServiceOperation, ServiceProvider, ServiceState, run_checked, run_program};
use crate::error::{EngineError, Result};
use crate::resource::Resource;
use crate::resource_type::ResourceContext;

/// The systemd provider.
#[derive(Debug)]
pub struct SystemdServiceProvider;

impl ServiceProvider for SystemdServiceProvider {
    fn query_service(&self, cx: &ResourceContext<'_>, resource: &Resource) -> Result<ServiceState> {
        let unit = unit_name(&resource.name);
        let argv =
            ["systemctl", "show", "--property=LoadState,ActiveState,UnitFileState", "--", &unit];
        let output = run_program(cx, resource, &argv)?;
        if !output.is_success() {
            return Err(EngineError::failed(resource, output.failure_text(&argv.join(" "))));
        }
        Ok(parse_properties(&unit, &output.stdout_text()))
    }

    fn run_operation(
        &self,
        cx: &ResourceContext<'_>,
        resource: &Resource,
        operation: ServiceOperation,
    ) -> Result<()> {
        let unit = unit_name(&resource.name);
        let run_systemctl = |verb| run_checked(cx, resource, &["systemctl", verb, "--", &unit]);
        if matches!(operation, ServiceOperation::Enable | ServiceOperation::Disable) {
            run_systemctl("unmask")?;
        }
        run_systemctl(match operation {
            ServiceOperation::Start => "start",
            ServiceOperation::Stop => "stop",
            ServiceOperation::Restart => "restart",
            ServiceOperation::Enable => "enable",
            ServiceOperation::Disable => "disable",
            ServiceOperation::Mask => "mask",
        })
    }

    fn list_names(&self, cx: &ResourceContext<'_>, resource: &Resource) -> Result<Vec<String>> {
        let argv = ["systemctl", "list-unit-files", "--type=service", "--no-legend"];
        let argv = [&argv[..], &["--no-pager", "--full", "--all"]].concat();
        let names = run_program(cx, resource, &argv)?.stdout_text();
        let names = names.lines().filter_map(|line| line.split_whitespace().next());
        // A template is not a service without an instance.
        Ok(names.filter(|name| !name.contains("@.")).map(str::to_owned).collect())
    }
}

/// systemd also expands `x` to `x.service`, but interprets a dot in the name as a unit suffix.
fn unit_name(name: &str) -> String {
    let kinds = [".service", ".socket", ".timer", ".target", ".mount", ".path", ".slice", ".scope"];
    if kinds.iter().any(|kind| name.ends_with(kind)) {
        name.to_owned()
    } else {
        format!("{name}.service")
    }
}

fn parse_properties(unit: &str, text: &str) -> ServiceState {
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        line.unwrap_or_default().trim()
    };
    let enable = match value("UnitFileState") {
        "enabled" | "enabled-runtime" | "linked" | "linked-runtime" | "alias" => "true",
        "masked" | "masked-runtime" => "mask",
        fixed @ ("static" | "indirect" | "generated" | "transient") => fixed,
        _ => "false",
    };
    let missing = value("LoadState") == "not-found";
    ServiceState {
        missing: missing.then(|| format!("a systemd unit {unit}")),
        running: matches!(value("ActiveState"), "active" | "reloading" | "refreshing"),
        enable: enable.to_owned(),
    }
}
