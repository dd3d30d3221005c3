//! Services by `systemctl`.

use super::{Action, Service, Services, must, run};
use crate::error::EngineError;
use crate::resource::Resource;
use crate::resource_type::Cx;

/// The provider.
#[derive(Debug)]
pub struct Systemd;

impl Services for Systemd {
    fn query(&self, cx: &Cx<'_>, resource: &Resource) -> Result<Service, EngineError> {
        let unit = unit(&resource.name);
        let argv = [
            "systemctl",
            "show",
            "--property=LoadState,ActiveState,UnitFileState",
            "--",
            &unit,
        ];
        let output = run(cx, resource, &argv)?;
        if !output.success() {
            let problem = format!(
                "`{}` ended with {}: {}",
                argv.join(" "),
                output.code,
                output.text().trim()
            );
            return Err(EngineError::failed(resource, problem));
        }
        Ok(parse(&unit, &String::from_utf8_lossy(&output.stdout)))
    }

    fn act(&self, cx: &Cx<'_>, resource: &Resource, action: Action) -> Result<(), EngineError> {
        let unit = unit(&resource.name);
        let call = |verb| must(cx, resource, &["systemctl", verb, "--", &unit]);
        match action {
            Action::Start => call("start"),
            Action::Stop => call("stop"),
            Action::Restart => call("restart"),
            Action::Enable => {
                call("unmask")?;
                call("enable")
            }
            Action::Disable => {
                call("unmask")?;
                call("disable")
            }
            Action::Mask => call("mask"),
        }
    }

    fn names(&self, cx: &Cx<'_>, resource: &Resource) -> Result<Vec<String>, EngineError> {
        let argv = [
            "systemctl",
            "list-unit-files",
            "--type=service",
            "--no-legend",
            "--no-pager",
            "--full",
            "--all",
        ];
        let output = run(cx, resource, &argv)?;
        let names = String::from_utf8_lossy(&output.stdout);
        let names = names
            .lines()
            .filter_map(|line| line.split_whitespace().next());
        // A template is no service before it has an instance.
        Ok(names
            .filter(|name| !name.contains("@."))
            .map(str::to_owned)
            .collect())
    }
}

/// systemd takes `x` for `x.service` itself, but then guesses from a dot in the name.
fn unit(name: &str) -> String {
    let kinds = [
        ".service", ".socket", ".timer", ".target", ".mount", ".path", ".slice", ".scope",
    ];
    if kinds.iter().any(|kind| name.ends_with(kind)) {
        name.to_owned()
    } else {
        format!("{name}.service")
    }
}

fn parse(unit: &str, text: &str) -> Service {
    let value = |key: &str| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        line.unwrap_or_default().trim()
    };
    let enable = match value("UnitFileState") {
        "enabled" | "enabled-runtime" | "linked" | "linked-runtime" | "alias" => "true",
        "masked" | "masked-runtime" => "mask",
        fixed @ ("static" | "indirect" | "generated" | "transient") => fixed,
        _ => "false",
    };
    let missing = value("LoadState") == "not-found";
    Service {
        missing: missing.then(|| format!("a systemd unit {unit}")),
        running: matches!(value("ActiveState"), "active" | "reloading" | "refreshing"),
        enable: enable.to_owned(),
    }
}
