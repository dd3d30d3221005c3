//! `service`: whether a service is running, and whether it starts at boot.

use crate::error::Result;
use crate::plan::{PropertyChange, ResourcePlan, ResourceState, compare_properties};
use crate::providers::service::choice::choose_provider;
use crate::providers::service::systemd::has_start_line;
use crate::providers::service::{ServiceOperation, ServiceState, UNMASK};
use crate::resource::{Resource, ResourceValues, name_values};
use crate::resource_type::{BoundResource, ResourceContext, ResourceType};
use crate::schema::AttributeKind::{Text, Word};
use crate::schema::{TypeSchema, parameter, property};

static SCHEMA: TypeSchema = TypeSchema {
    type_name: "service",
    doc: "A background service.",
    namevar: "name",
    attributes: &[
        property(
            "ensure",
            Word(&["running", "stopped", "true", "false"]),
            "Whether the service is running.",
        ),
        property(
            "enable",
            Word(&["true", "false", "mask"]),
            "Whether the service starts at boot; `mask` prevents any start.",
        ),
        parameter("name", Text, "The name of the unit or script."),
        parameter("start", Text, "The command line to start the service."),
        parameter("stop", Text, "The command line to stop the service."),
        parameter("restart", Text, "The command line to restart the service on a refresh."),
        parameter("status", Text, "A command line that exits with 0 if the service is running."),
        parameter(
            "hasstatus",
            Word(&["true", "false"]),
            "Whether the init script supports `status`.",
        )
        .with_default("true"),
        parameter(
            "hasrestart",
            Word(&["true", "false"]),
            "Whether the init script supports `restart`.",
        ),
        parameter(
            "pattern",
            Text,
            "A regular expression that matches the command line of its processes.",
        ),
        parameter("binary", Text, "The program of the service, if it has no script."),
        parameter(
            "provider",
            Word(&["systemd", "init", "debian", "base", "supervised"]),
            "The init system; `base`: only the commands specified here; `supervised`: a process that the daemon starts.",
        ),
    ],
};

#[derive(Debug)]
pub struct ServiceResourceType;

impl ResourceType for ServiceResourceType {
    fn schema(&self) -> &'static TypeSchema {
        &SCHEMA
    }

    fn check(&self, mut resource: Resource) -> Result<Resource> {
        check_name(&resource)?;
        let word = match resource.get_text("ensure") {
            Some("true") => "running",
            Some("false") => "stopped",
            _ => return Ok(resource),
        };
        resource.set_value("ensure", word);
        Ok(resource)
    }

    /// An unknown service is stopped and disabled, and can be masked; requesting any other state is an error.
    fn read_state(&self, resource: &BoundResource<'_>) -> Result<ResourceState> {
        // Some reads are not preceded by `check`, and a name with slashes would leave /etc/init.d.
        check_name(resource)?;
        let found = choose_provider(resource)?.query_service(resource)?;
        let must_exist = !resource.cx.earlier_changes_pending
            && (resource.get_text("ensure") == Some("running")
                || resource.get_text("enable") == Some("true"));
        let found = if must_exist { found.require_known(resource)? } else { found };
        Ok(ResourceState { values: service_values(&found) })
    }

    fn plan(&self, resource: &Resource, state: &ResourceState) -> ResourcePlan {
        let mut plan = ResourcePlan::compare(&SCHEMA, resource, state);
        // Puppet syncs `enable` together with `ensure` without reporting it; here it is a separate change.
        if plan.changes.iter().any(|change| change.property == "ensure") {
            plan.changes.extend(compare_properties(
                &SCHEMA,
                &resource.without_value("ensure"),
                state,
            ));
        }
        let removes_mask =
            (is_start(&plan) && !has_start_line(resource)) || resource.get_flag(UNMASK);
        let from = state.get_text("enable").unwrap_or_default();
        plan.changes.retain(|change| {
            change.property != "enable"
                || can_change_enable(from, change.to.as_text(), removes_mask)
        });
        plan
    }

    fn apply_change(
        &self,
        cx: &ResourceContext<'_>,
        plan: &ResourcePlan,
        change: &PropertyChange,
    ) -> Result<()> {
        let resource = &cx.bind(&plan.resource);
        let operation = match (change.property.as_str(), change.to.as_text()) {
            ("ensure", Some("running")) => ServiceOperation::Start,
            ("ensure", _) => ServiceOperation::Stop,
            (_, Some("true")) => ServiceOperation::Enable,
            (_, Some("mask")) => ServiceOperation::Mask,
            _ => ServiceOperation::Disable,
        };
        let provider = choose_provider(resource)?;
        provider.run_operation(resource, operation)?;
        // The start has removed a mask that is wanted.
        if operation == ServiceOperation::Start
            && resource.get_text("enable") == Some("mask")
            && plan.state.get_text("enable") == Some("mask")
        {
            provider.run_operation(resource, ServiceOperation::Mask)?;
        }
        Ok(())
    }

    fn supports_refresh(&self) -> bool {
        true
    }

    /// Restarts the service if it is running; a stopped service stays stopped.
    fn refresh(&self, resource: &BoundResource<'_>) -> Result<()> {
        let provider = choose_provider(resource)?;
        if provider.query_service(resource)?.running {
            provider.run_operation(resource, ServiceOperation::Restart)?;
        }
        Ok(())
    }

    /// A service that was just started already uses its new configuration.
    fn spares_refresh(&self, change: &PropertyChange) -> bool {
        change.property == "ensure" && change.to.as_text() == Some("running")
    }

    fn list_instances(&self, cx: &ResourceContext<'_>) -> Result<Vec<(String, ResourceValues)>> {
        let all = Resource::without_values(&SCHEMA, "*")?;
        let provider = choose_provider(&cx.bind(&all))?;
        let mut instances = Vec::new();
        for name in provider.list_names(&cx.bind(&all))? {
            let found =
                provider.query_service(&cx.bind(&Resource::without_values(&SCHEMA, &name)?))?;
            instances.push((name, service_values(&found)));
        }
        Ok(instances)
    }
}

/// Whether the plan starts the service. A start removes its mask.
pub(crate) fn is_start(plan: &ResourcePlan) -> bool {
    let is_start = |change: &PropertyChange| {
        change.property == "ensure" && change.to.as_text() == Some("running")
    };
    plan.changes.iter().any(is_start)
}

/// Whether `enable` is changed, as in Puppet. A masked unit counts as disabled, and may be enabled once its mask is removed. Units that
/// systemd reports as indirect are left alone; static and generated ones can only be masked.
fn can_change_enable(from: &str, to: Option<&str>, removes_mask: bool) -> bool {
    match (from, to) {
        ("mask", Some("false")) => removes_mask,
        ("true" | "false" | "mask", _) => true,
        ("indirect", _) => false,
        (_, to) => to == Some("mask"),
    }
}

fn check_name(resource: &Resource) -> Result<()> {
    let expected = "the name of a unit or script: letters, digits, `._@:\\-+`";
    resource.check_name(expected, |name| {
        name.chars().all(|c| c.is_ascii_alphanumeric() || "._@:\\-+".contains(c))
            && !name.starts_with(['-', '.'])
    })
}

fn service_values(found: &ServiceState) -> ResourceValues {
    let ensure = if found.running { "running" } else { "stopped" };
    name_values([("ensure", ensure.into()), ("enable", found.enable.clone().into())])
}
