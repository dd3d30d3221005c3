//! Adapts a Puppet type to the engine's type trait: each operation is one request to the resident process.

use std::sync::Arc;

use muster_base::error_chain;
use muster_system::command::CancelFlag;
use serde::de::DeserializeOwned;

use super::protocol::{
    BridgeRequest, CheckReply, EmptyReply, InstancesReply, PlanReply, PuppetPlannedChange,
    PuppetTypeDescription, ReadReply, values_from_json,
};
use super::session::{BridgeError, LoggedAnswer, PuppetBridge};
use crate::error::{EngineError, Result};
use crate::plan::{PropertyChange, ResourcePlan, ResourceState};
use crate::resource::{Resource, ResourceValue, ResourceValues};
use crate::resource_type::{
    AutoRequire, BoundResource, CatalogResources, ResourceContext, ResourceType,
};
use crate::schema::{AttributeKind, TypeSchema, leak_text, parameter, property};

#[derive(Debug)]
pub(super) struct PuppetResourceType {
    schema: &'static TypeSchema,
    refreshes: bool,
    provider: Option<String>,
    autorequires: &'static [&'static str],
    bridge: Arc<PuppetBridge>,
}

impl PuppetResourceType {
    pub(super) fn new(
        name: &str,
        description: &PuppetTypeDescription,
        bridge: Arc<PuppetBridge>,
    ) -> Self {
        Self {
            schema: leak_schema(name, description),
            refreshes: description.refreshes,
            provider: description.provider.clone(),
            autorequires: Vec::leak(
                description.autorequires.iter().map(|name| leak_text(name)).collect(),
            ),
            bridge,
        }
    }

    /// Sends a request about a resource; forwards Puppet's log lines.
    fn ask_puppet<T: DeserializeOwned>(
        &self,
        resource: &BoundResource<'_>,
        request: &BridgeRequest<'_>,
    ) -> Result<T> {
        let answer = self.bridge.send_request(request, &resource.cx.cancel);
        let log = match &answer {
            Ok(LoggedAnswer { log, .. }) | Err(BridgeError::Failed { log, .. }) => log.as_slice(),
            Err(_) => &[],
        };
        for line in log {
            resource.cx.log_line(line);
        }
        answer.map(|answer| answer.ok).map_err(|error| to_engine_error(resource, error))
    }

    /// Sends a request that has no other answer than its success.
    fn tell_puppet(&self, resource: &BoundResource<'_>, request: &BridgeRequest<'_>) -> Result<()> {
        self.ask_puppet::<EmptyReply>(resource, request).map(|_| ())
    }

    fn query_check(&self, resource: &Resource) -> Result<CheckReply, BridgeError> {
        let request = self.build_request("check", resource);
        self.bridge.send_request(&request, &CancelFlag::default()).map(|reply| reply.ok)
    }

    fn build_request<'r>(&self, op: &'static str, resource: &'r Resource) -> BridgeRequest<'r> {
        BridgeRequest::for_resource(op, resource, self.schema.namevar)
    }
}

impl ResourceType for PuppetResourceType {
    fn schema(&self) -> &'static TypeSchema {
        self.schema
    }

    fn check(&self, mut resource: Resource) -> Result<Resource> {
        let reply = self.query_check(&resource);
        resource.name = reply.map_err(|error| to_engine_error(&resource, error))?.name;
        Ok(resource)
    }

    fn read_state(&self, resource: &BoundResource<'_>) -> Result<ResourceState> {
        let found: ReadReply = self.ask_puppet(resource, &self.build_request("find", resource))?;
        Ok(ResourceState { values: values_from_json(found.values) })
    }

    fn read_and_plan(&self, resource: &BoundResource<'_>) -> Result<ResourcePlan> {
        let planned: PlanReply =
            self.ask_puppet(resource, &self.build_request("plan", resource))?;
        Ok(ResourcePlan {
            resource: resource.resource.clone(),
            state: ResourceState { values: values_from_json(planned.values) },
            changes: planned.changes.into_iter().map(to_property_change).collect(),
        })
    }

    fn apply_change(
        &self,
        cx: &ResourceContext<'_>,
        plan: &ResourcePlan,
        change: &PropertyChange,
    ) -> Result<()> {
        let request = self.build_request("apply", &plan.resource).for_property(&change.property);
        self.tell_puppet(&cx.bind(&plan.resource), &request)
    }

    fn supports_refresh(&self) -> bool {
        self.refreshes
    }

    fn refresh(&self, resource: &BoundResource<'_>) -> Result<()> {
        self.tell_puppet(resource, &self.build_request("refresh", resource))
    }

    /// If the query fails, no order is added; the evaluation of the resource will report the error.
    fn autorequires(&self, resource: &Resource, _: &dyn CatalogResources) -> Vec<AutoRequire> {
        if self.autorequires.is_empty() {
            return Vec::new();
        }
        let Ok(reply) = self.query_check(resource) else { return Vec::new() };
        let known_type =
            |name: &str| self.autorequires.iter().copied().find(|type_name| *type_name == name);
        let requirements = reply.autorequires.into_iter();
        requirements.filter_map(|(type_name, name)| Some((known_type(&type_name)?, name))).collect()
    }

    fn provider_name(&self, resource: &BoundResource<'_>) -> Option<String> {
        resource.get_text("provider").map(str::to_owned).or_else(|| self.provider.clone())
    }

    fn find(&self, cx: &ResourceContext<'_>, title: &str) -> Result<ResourceState> {
        let resource = Resource::without_values(self.schema, title)?;
        let request = BridgeRequest::for_title("find", self.schema.type_name, title);
        let found: ReadReply = self.ask_puppet(&cx.bind(&resource), &request)?;
        Ok(ResourceState { values: values_from_json(found.values) })
    }

    fn list_instances(&self, cx: &ResourceContext<'_>) -> Result<Vec<(String, ResourceValues)>> {
        let all = Resource::without_values(self.schema, "*")?;
        let listed: InstancesReply = self
            .ask_puppet(&cx.bind(&all), &BridgeRequest::for_type("list", self.schema.type_name))?;
        let resources = listed.resources.into_iter();
        Ok(resources.map(|found| (found.title, values_from_json(found.values))).collect())
    }
}

fn to_property_change(planned: PuppetPlannedChange) -> PropertyChange {
    PropertyChange {
        property: planned.property,
        from: ResourceValue::from_json(planned.previous),
        to: ResourceValue::from_json(planned.desired)
            .unwrap_or_else(|| ResourceValue::from("absent")),
        sensitive: false,
        message: planned.message,
    }
}

fn to_engine_error(resource: &Resource, error: BridgeError) -> EngineError {
    match error {
        BridgeError::Invalid(problem) => {
            EngineError::Refused { resource: resource.reference(), problem }
        }
        BridgeError::System(source) => {
            EngineError::system(resource, "Puppet did not reply", source)
        }
        other => EngineError::failed(resource, error_chain(&other)),
    }
}

/// Leaks the schema, because schemas are `'static`. One allocation for each distinct definition of a type
/// during the lifetime of the daemon.
fn leak_schema(name: &str, description: &PuppetTypeDescription) -> &'static TypeSchema {
    let build_attribute = |attribute: &super::protocol::PuppetAttribute| {
        let (name, doc) = (leak_text(&attribute.name), leak_text(&attribute.doc));
        if attribute.property {
            property(name, AttributeKind::Data, doc)
        } else {
            parameter(name, AttributeKind::Data, doc)
        }
    };
    let namevar = description.namevars.first().map_or("name", |name| leak_text(name));
    Box::leak(Box::new(TypeSchema {
        type_name: leak_text(name),
        doc: leak_text(&description.doc),
        namevar,
        attributes: Vec::leak(description.attributes.iter().map(build_attribute).collect()),
    }))
}
