//! `notify`: logs a message. Never in sync, as in Puppet: the message is the change.

use crate::error::Result;
use crate::plan::{PropertyChange, ResourcePlan};
use crate::resource::{Resource, ResourceValue};
use crate::resource_type::{ResourceContext, ResourceType};
use crate::schema::AttributeKind::Text;
use crate::schema::{TypeSchema, flag_parameter, parameter, property};

static SCHEMA: TypeSchema = TypeSchema {
    type_name: "notify",
    doc: "A message in the log of the run.",
    namevar: "name",
    attributes: &[
        property("message", Text, "The message; defaults to the name."),
        flag_parameter(
            "withpath",
            "Whether to prefix the message with the reference of the resource.",
        ),
        parameter("name", Text, "Name of the resource."),
    ],
};

#[derive(Debug)]
pub struct NotifyResourceType;

impl ResourceType for NotifyResourceType {
    fn schema(&self) -> &'static TypeSchema {
        &SCHEMA
    }

    fn check(&self, mut resource: Resource) -> Result<Resource> {
        let name = resource.name.clone();
        resource.values.entry("message".to_owned()).or_insert(ResourceValue::Text(name));
        Ok(resource)
    }

    fn apply_change(
        &self,
        cx: &ResourceContext<'_>,
        plan: &ResourcePlan,
        change: &PropertyChange,
    ) -> Result<()> {
        let resource = &plan.resource;
        let path = resource.get_flag("withpath").then(|| format!("{}: ", resource.reference()));
        cx.log_line(path.unwrap_or_default() + &change.to.to_string());
        Ok(())
    }
}
