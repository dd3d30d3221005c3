//! `service`: that a service runs, and whether it starts at boot.

use crate::error::EngineError;
use crate::plan::{Change, Plan, State};
use crate::providers::service::{Action, Service as Found, choose};
use crate::resource::{Resource, Value, Values};
use crate::resource_type::{Cx, ResourceType};
use crate::schema::{Attribute, Kind, Schema};

static SCHEMA: Schema = Schema {
    type_name: "service",
    doc: "Something that runs in the background.",
    namevar: "name",
    attributes: &[
        Attribute::property(
            "ensure",
            Kind::Word(&["running", "stopped", "true", "false"]),
            "Whether it runs.",
        ),
        Attribute::property(
            "enable",
            Kind::Word(&["true", "false", "mask"]),
            "Whether it starts at boot; `mask` lets nobody start it.",
        ),
        Attribute::parameter("name", Kind::Text, "The name of the unit or script."),
        Attribute::parameter("start", Kind::Text, "A command line that starts it."),
        Attribute::parameter("stop", Kind::Text, "A command line that stops it."),
        Attribute::parameter(
            "restart",
            Kind::Text,
            "A command line that restarts it, on a refresh.",
        ),
        Attribute::parameter(
            "status",
            Kind::Text,
            "A command line that ends with 0 when it runs.",
        ),
        Attribute::parameter(
            "hasstatus",
            Kind::Word(&["true", "false"]),
            "Whether its script knows `status`.",
        )
        .or("true"),
        Attribute::parameter(
            "hasrestart",
            Kind::Word(&["true", "false"]),
            "Whether its script knows `restart`.",
        ),
        Attribute::parameter(
            "pattern",
            Kind::Text,
            "What its processes have in their command line.",
        ),
        Attribute::parameter(
            "binary",
            Kind::Text,
            "The daemon, where there is no script.",
        ),
        Attribute::parameter(
            "provider",
            Kind::Word(&["systemd", "init", "debian", "base", "supervised"]),
            "The init system; `base`: only the commands given here; `supervised`: a process that the daemon starts.",
        ),
    ],
};

/// The type.
#[derive(Debug)]
pub struct Service;

impl ResourceType for Service {
    fn schema(&self) -> &'static Schema {
        &SCHEMA
    }

    fn check(&self, mut resource: Resource) -> Result<Resource, EngineError> {
        check_name(&resource)?;
        let word = match resource.text("ensure") {
            Some("true") => "running",
            Some("false") => "stopped",
            _ => return Ok(resource),
        };
        resource
            .values
            .insert("ensure".to_owned(), Value::from(word));
        Ok(resource)
    }

    /// A service that is not known does not run and does not start at boot; asking for more than that is a failure.
    fn read(&self, cx: &Cx<'_>, resource: &Resource) -> Result<State, EngineError> {
        // Not every read comes after `check`, and a name with slashes would lead out of /etc/init.d.
        check_name(resource)?;
        let found = choose(cx, resource)?.query(cx, resource)?;
        let more = resource.text("ensure") == Some("running")
            || matches!(resource.text("enable"), Some("true" | "mask"));
        let found = if more { found.known(resource)? } else { found };
        Ok(State {
            values: values(&found),
        })
    }

    fn plan(&self, resource: &Resource, state: &State) -> Plan {
        let mut plan = Plan::compare(&SCHEMA, resource, state);
        // Puppet syncs `enable` together with `ensure` and does not tell; here it is a change of its own.
        if plan
            .changes
            .iter()
            .any(|change| change.property == "ensure")
        {
            let mut rest = resource.clone();
            rest.values.remove("ensure");
            plan.changes
                .extend(crate::plan::compare(&SCHEMA, &rest, state));
        }
        let fixed = state
            .get("enable")
            .and_then(Value::as_text)
            .is_some_and(|word| !["true", "false", "mask"].contains(&word));
        // What systemd calls static or generated can be masked, and nothing else.
        plan.changes.retain(|change| {
            change.property != "enable" || !fixed || change.to.as_text() == Some("mask")
        });
        plan
    }

    fn apply(&self, cx: &Cx<'_>, plan: &Plan, change: &Change) -> Result<(), EngineError> {
        let resource = &plan.resource;
        let action = match (change.property.as_str(), change.to.as_text()) {
            ("ensure", Some("running")) => Action::Start,
            ("ensure", _) => Action::Stop,
            (_, Some("true")) => Action::Enable,
            (_, Some("mask")) => Action::Mask,
            _ => Action::Disable,
        };
        choose(cx, resource)?.act(cx, resource, action)
    }

    fn refreshes(&self) -> bool {
        true
    }

    /// Restarts it if it runs; what is stopped stays so.
    fn refresh(&self, cx: &Cx<'_>, resource: &Resource) -> Result<(), EngineError> {
        let provider = choose(cx, resource)?;
        if provider.query(cx, resource)?.running {
            provider.act(cx, resource, Action::Restart)?;
        }
        Ok(())
    }

    /// A service that was only just started knows its new configuration.
    fn spares_refresh(&self, change: &Change) -> bool {
        change.property == "ensure" && change.to.as_text() == Some("running")
    }

    fn instances(&self, cx: &Cx<'_>) -> Result<Vec<(String, Values)>, EngineError> {
        let all = Resource::named(&SCHEMA, "*")?;
        let provider = choose(cx, &all)?;
        let mut instances = Vec::new();
        for name in provider.names(cx, &all)? {
            let found = provider.query(cx, &Resource::named(&SCHEMA, &name)?)?;
            instances.push((name, values(&found)));
        }
        Ok(instances)
    }
}

fn check_name(resource: &Resource) -> Result<(), EngineError> {
    let bad = |c: char| !(c.is_ascii_alphanumeric() || "._@:\\-+".contains(c));
    if !resource.name.contains(bad) && !resource.name.starts_with(['-', '.']) {
        return Ok(());
    }
    let problem = format!(
        "is `{}`, must be the name of a unit or script: letters, digits, `._@:\\-+`",
        resource.name
    );
    Err(EngineError::invalid(resource, "name", problem))
}

fn values(found: &Found) -> Values {
    let ensure = if found.running { "running" } else { "stopped" };
    Values::from([
        ("ensure".to_owned(), Value::from(ensure)),
        ("enable".to_owned(), Value::Text(found.enable.clone())),
    ])
}
