//! `notify`: says something to whoever asked. Never in sync, as in Puppet: saying it is the change.

use crate::error::EngineError;
use crate::plan::{Change, Plan, State};
use crate::resource::{Resource, Value};
use crate::resource_type::{Cx, ResourceType};
use crate::schema::{Attribute, Kind, Schema};

static SCHEMA: Schema = Schema {
    type_name: "notify",
    doc: "A message to the log of the run.",
    namevar: "name",
    attributes: &[
        Attribute::property(
            "message",
            Kind::Text,
            "The message; the name when it is not given.",
        ),
        Attribute::parameter(
            "withpath",
            Kind::Bool,
            "Whether the resource's reference comes before it.",
        )
        .or("false"),
        Attribute::parameter("name", Kind::Text, "A name for it."),
    ],
};

/// The type.
#[derive(Debug)]
pub struct Notify;

impl ResourceType for Notify {
    fn schema(&self) -> &'static Schema {
        &SCHEMA
    }

    fn check(&self, mut resource: Resource) -> Result<Resource, EngineError> {
        let name = resource.name.clone();
        resource
            .values
            .entry("message".to_owned())
            .or_insert(Value::Text(name));
        Ok(resource)
    }

    fn read(&self, _: &Cx<'_>, _: &Resource) -> Result<State, EngineError> {
        Ok(State::default())
    }

    fn apply(&self, cx: &Cx<'_>, plan: &Plan, change: &Change) -> Result<(), EngineError> {
        let resource = &plan.resource;
        if resource.flag("withpath") {
            cx.say(format!("{}: {}", resource.reference(), change.to));
        } else {
            cx.say(change.to.to_string());
        }
        Ok(())
    }
}
