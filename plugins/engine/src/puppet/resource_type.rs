//! A type of Puppet's as one of the engine's: each verb is a question to the resident process.

use std::sync::Arc;

use muster_system::command::Cancel;
use muster_system::error::chain;
use serde::de::DeserializeOwned;

use super::protocol::{
    Checked, Description, Done, Found, Listed, Planned, PlannedChange, Request, value, values,
};
use super::session::{Answered, AskError, Sessions};
use crate::error::EngineError;
use crate::plan::{Change, Plan, State};
use crate::resource::{Resource, Value, Values};
use crate::resource_type::{Cx, ResourceType, Siblings, Wanted};
use crate::schema::{Attribute, Kind, Schema};

/// One of them.
#[derive(Debug)]
pub(super) struct PuppetType {
    schema: &'static Schema,
    refreshes: bool,
    provider: Option<String>,
    /// The types of what may come first without being told to.
    autorequires: &'static [&'static str],
    sessions: Arc<Sessions>,
}

impl PuppetType {
    pub(super) fn new(name: &str, described: &Description, sessions: Arc<Sessions>) -> Self {
        Self {
            schema: leaked_schema(name, described),
            refreshes: described.refreshes,
            provider: described.provider.clone(),
            autorequires: leaked(
                described
                    .autorequires
                    .iter()
                    .map(|name| leaked_text(name))
                    .collect(),
            ),
            sessions,
        }
    }

    /// Asks about a resource; what Puppet logged is said on.
    fn ask<T: DeserializeOwned>(
        &self,
        cx: &Cx<'_>,
        resource: &Resource,
        request: &Request<'_>,
    ) -> Result<T, EngineError> {
        match self.sessions.ask(request, &cx.cancel) {
            Ok(Answered { ok, log }) => {
                for line in log {
                    cx.say(line);
                }
                Ok(ok)
            }
            Err(error) => {
                if let AskError::Failed { log, .. } = &error {
                    for line in log {
                        cx.say(line.clone());
                    }
                }
                Err(failure(resource, error))
            }
        }
    }

    fn about<'r>(&self, op: &'static str, resource: &'r Resource) -> Request<'r> {
        Request::about(op, resource, self.schema.namevar)
    }
}

impl ResourceType for PuppetType {
    fn schema(&self) -> &'static Schema {
        self.schema
    }

    fn check(&self, mut resource: Resource) -> Result<Resource, EngineError> {
        let asked = self
            .sessions
            .ask::<Checked>(&self.about("check", &resource), &Cancel::default());
        match asked {
            Ok(answer) => {
                resource.name = answer.ok.name;
                Ok(resource)
            }
            Err(error) => Err(failure(&resource, error)),
        }
    }

    fn read(&self, cx: &Cx<'_>, resource: &Resource) -> Result<State, EngineError> {
        let found: Found = self.ask(cx, resource, &self.about("find", resource))?;
        Ok(State {
            values: values(found.values),
        })
    }

    fn look(&self, cx: &Cx<'_>, resource: &Resource) -> Result<Plan, EngineError> {
        let planned: Planned = self.ask(cx, resource, &self.about("plan", resource))?;
        Ok(Plan {
            resource: resource.clone(),
            state: State {
                values: values(planned.values),
            },
            changes: planned.changes.into_iter().map(change).collect(),
        })
    }

    fn apply(&self, cx: &Cx<'_>, plan: &Plan, change: &Change) -> Result<(), EngineError> {
        let request = self.about("apply", &plan.resource).only(&change.property);
        self.ask::<Done>(cx, &plan.resource, &request).map(|_| ())
    }

    fn refreshes(&self) -> bool {
        self.refreshes
    }

    fn refresh(&self, cx: &Cx<'_>, resource: &Resource) -> Result<(), EngineError> {
        self.ask::<Done>(cx, resource, &self.about("refresh", resource))
            .map(|_| ())
    }

    /// What cannot be asked has no order of its own; its evaluation will say why.
    fn autorequires(&self, resource: &Resource, _: &dyn Siblings) -> Vec<Wanted> {
        if self.autorequires.is_empty() {
            return Vec::new();
        }
        let request = self.about("check", resource);
        let Ok(answer) = self.sessions.ask::<Checked>(&request, &Cancel::default()) else {
            return Vec::new();
        };
        let known = |name: &str| {
            self.autorequires
                .iter()
                .copied()
                .find(|known| *known == name)
        };
        let wanted = answer.ok.autorequires.into_iter();
        wanted
            .filter_map(|(type_name, name)| Some((known(&type_name)?, name)))
            .collect()
    }

    fn provider(&self, _: &Cx<'_>, resource: &Resource) -> Option<String> {
        resource
            .text("provider")
            .map(str::to_owned)
            .or_else(|| self.provider.clone())
    }

    fn find(&self, cx: &Cx<'_>, title: &str) -> Result<State, EngineError> {
        let resource = Resource::named(self.schema, title)?;
        let request = Request::named("find", self.schema.type_name, title);
        let found: Found = self.ask(cx, &resource, &request)?;
        Ok(State {
            values: values(found.values),
        })
    }

    fn instances(&self, cx: &Cx<'_>) -> Result<Vec<(String, Values)>, EngineError> {
        let all = Resource::named(self.schema, "*")?;
        let listed: Listed = self.ask(cx, &all, &Request::of("list", self.schema.type_name))?;
        let resources = listed.resources.into_iter();
        Ok(resources
            .map(|found| (found.title, values(found.values)))
            .collect())
    }
}

fn change(planned: PlannedChange) -> Change {
    Change {
        property: planned.property,
        from: value(planned.previous),
        to: value(planned.desired).unwrap_or_else(|| Value::from("absent")),
        sensitive: false,
        message: planned.message,
    }
}

fn failure(resource: &Resource, error: AskError) -> EngineError {
    match error {
        AskError::Invalid(problem) => EngineError::Refused {
            resource: resource.reference(),
            problem,
        },
        AskError::System(source) => EngineError::during(resource, "Puppet did not answer")(source),
        other => EngineError::failed(resource, chain(&other)),
    }
}

/// Schemas are the engine's constants, and one that is learnt stays as long as the engine. There is one for each definition of a
/// type that the machine ever had while the daemon runs.
fn leaked_schema(name: &str, described: &Description) -> &'static Schema {
    let attribute = |one: &super::protocol::DescribedAttribute| {
        let (name, doc) = (leaked_text(&one.name), leaked_text(&one.doc));
        if one.property {
            Attribute::property(name, Kind::Data, doc)
        } else {
            Attribute::parameter(name, Kind::Data, doc)
        }
    };
    let namevar = described
        .namevars
        .first()
        .map_or("name", |name| leaked_text(name));
    Box::leak(Box::new(Schema {
        type_name: leaked_text(name),
        doc: leaked_text(&described.doc),
        namevar,
        attributes: leaked(described.attributes.iter().map(attribute).collect()),
    }))
}

fn leaked<T>(values: Vec<T>) -> &'static [T] {
    Vec::leak(values)
}

fn leaked_text(text: &str) -> &'static str {
    String::leak(text.to_owned())
}
