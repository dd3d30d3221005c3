//! Engine API for single resources: check, plan, find and search by type name. [`apply`](crate::apply) applies them.

use muster_base::nearest_name;
use std::sync::Arc;

use muster_system::System;
use muster_system::command::CancelFlag;

use crate::catalog::{CatalogEntry, ResourceReference};
use crate::error::{EngineError, Result};
use crate::munge;
use crate::plan::{ResourcePlan, ResourceState};
use crate::read_only::{ReadOnlySystem, UnevaluatedResourceType};
use crate::resource::{Resource, ResourceValue, ResourceValues};
use crate::resource_type::{ResourceContext, ResourceType};
use crate::schema::{RELATION_METAPARAMETERS, TypeSchema};
use crate::type_source::ResourceTypeSource;
use crate::types;

/// All resource types on one machine.
#[derive(Debug, Clone)]
pub struct ResourceEngine {
    system: Arc<dyn System>,
    types: Arc<[Arc<dyn ResourceType>]>,
    type_source: Option<Arc<dyn ResourceTypeSource>>,
    read_only: bool,
}

impl ResourceEngine {
    /// All built-in types on the given machine.
    pub fn new(system: Arc<dyn System>) -> Self {
        Self { system, types: types::builtin_types().into(), type_source: None, read_only: false }
    }

    /// A read-only engine for plans of remote callers: changes nothing and starts only the engine's own query tools. Resources that
    /// need another program are not evaluated, see [`EngineError::is_not_evaluated`]; neither are types that are not built in.
    #[must_use]
    pub fn to_read_only(&self) -> Self {
        Self {
            system: Arc::new(ReadOnlySystem(Arc::clone(&self.system))),
            read_only: true,
            ..self.clone()
        }
    }

    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    #[must_use]
    pub fn with_type_source(mut self, type_source: Arc<dyn ResourceTypeSource>) -> Self {
        self.type_source = Some(type_source);
        self
    }

    #[must_use]
    pub fn without_type_source(&self) -> Self {
        Self { type_source: None, ..self.clone() }
    }

    pub fn is_builtin_type(&self, type_name: &str) -> bool {
        self.type_schemas().any(|schema| schema.type_name == type_name)
    }

    /// Schemas of all built-in types, sorted by name.
    pub fn type_schemas(&self) -> impl Iterator<Item = &'static TypeSchema> {
        self.types.iter().map(|resource_type| resource_type.schema())
    }

    /// The schema of a type, built in or from the type source.
    pub fn type_schema(&self, type_name: &str) -> Result<&'static TypeSchema> {
        self.type_named(type_name).map(|resource_type| resource_type.schema())
    }

    /// Validates a resource before any change. Rejects metaparameters that relate resources to each other,
    /// because there is only one.
    pub fn check_resource(
        &self,
        type_name: &str,
        title: &str,
        attributes: &serde_json::Map<String, serde_json::Value>,
    ) -> Result<Resource> {
        let resource_type = self.type_named(type_name)?;
        let resource = munge::munge_resource(resource_type.schema(), title, attributes)?;
        if let Some(relation) =
            RELATION_METAPARAMETERS.iter().find(|relation| resource.get(relation).is_some())
        {
            let problem =
                "relates resources of a catalog, cannot be used with a single resource; remove it";
            return Err(EngineError::invalid_value(&resource, relation, problem));
        }
        resource_type.check(resource)
    }

    /// Validates a resource of a catalog, which is not a container, before any change; relationships are allowed.
    pub fn check_catalog_resource(&self, entry: &CatalogEntry) -> Result<Resource> {
        let ResourceReference { type_name, title } = &entry.reference;
        let resource_type = self.type_named(type_name)?;
        let resource = munge::munge_resource(resource_type.schema(), title, &entry.attributes)?;
        let static_sources = entry.static_sources.clone();
        resource_type.check(Resource { static_sources, ..resource })
    }

    /// A resource without desired values. The name is not validated: `*` stands for all in messages.
    pub fn empty_resource(&self, type_name: &str, title: &str) -> Result<Resource> {
        Resource::without_values(self.type_named(type_name)?.schema(), title)
    }

    /// Computes the pending changes. Reads the machine and changes nothing (guards of an exec do run, because they decide).
    pub fn plan_resource(&self, resource: &Resource, cancel: CancelFlag) -> Result<ResourcePlan> {
        let resource_type = self.type_named(&resource.type_name)?;
        resource_type.read_and_plan(&self.resource_context(cancel).bind(resource))
    }

    /// The full state of one resource; `ensure` is `absent` if it does not exist.
    pub fn find_state(&self, type_name: &str, title: &str) -> Result<ResourceState> {
        let resource_type = self.type_named(type_name)?;
        resource_type.find(&self.resource_context(CancelFlag::default()), title)
    }

    /// All resources of the type: title and properties.
    pub fn list_instances(&self, type_name: &str) -> Result<Vec<(String, ResourceValues)>> {
        let resource_type = self.type_named(type_name)?;
        resource_type.list_instances(&self.resource_context(CancelFlag::default()))
    }

    pub(crate) fn system(&self) -> &dyn System {
        &*self.system
    }

    pub(crate) fn resource_context(&self, cancel: CancelFlag) -> ResourceContext<'_> {
        ResourceContext::new(&*self.system, cancel)
    }

    pub(crate) fn type_of(&self, resource: &Resource) -> Result<Arc<dyn ResourceType>> {
        self.type_named(&resource.type_name)
    }

    /// Whether the type of a resource has a property; false for an unknown type.
    pub(crate) fn type_satisfies(
        &self,
        resource: &Resource,
        predicate: impl FnOnce(&dyn ResourceType) -> bool,
    ) -> bool {
        self.type_of(resource).is_ok_and(|resource_type| predicate(&*resource_type))
    }

    /// Whether its own change refreshes it. A resource being removed is not refreshed.
    pub(crate) fn refreshes_itself(&self, resource: &Resource) -> bool {
        let is_removed = resource.get_text("ensure") == Some("absent");
        !is_removed
            && self.type_satisfies(resource, |resource_type| resource_type.refreshes_itself())
    }

    /// Desired properties, except sensitive ones.
    pub(crate) fn managed_properties<'r>(
        &self,
        resource: &'r Resource,
    ) -> Vec<(&'static str, &'r ResourceValue)> {
        let Ok(resource_type) = self.type_of(resource) else { return Vec::new() };
        let properties = resource_type.schema().properties().filter(|property| !property.sensitive);
        properties
            .filter_map(|property| Some((property.name, resource.get(property.name)?)))
            .collect()
    }

    fn type_named(&self, name: &str) -> Result<Arc<dyn ResourceType>> {
        let mut builtin_types = self.types.iter();
        if let Some(found) = builtin_types.find(|known| known.schema().type_name == name) {
            return Ok(Arc::clone(found));
        }
        let found = match &self.type_source {
            Some(type_source) => type_source.type_named(name)?,
            None => None,
        };
        match found {
            Some(found) if self.read_only => Ok(Arc::new(UnevaluatedResourceType(found))),
            Some(found) => Ok(found),
            None => Err(EngineError::UnknownType {
                name: name.to_owned(),
                suggestion: nearest_name(name, self.type_schemas().map(|schema| schema.type_name)),
            }),
        }
    }
}
