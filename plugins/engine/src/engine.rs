//! The door to the engine: check, plan, apply, find and search resources by the name of their type.

use std::ops::Deref;
use std::sync::Arc;

use muster_system::System;
use muster_system::command::CancelFlag;

use crate::error::EngineError;
use crate::event::{ChangeEvent, ChangeEventStatus};
use crate::munge;
use crate::plan::{ChangeOutcome, PropertyChange, ResourcePlan, ResourceState};
use crate::read_only::{ReadOnlySystem, UnevaluatedResourceType};
use crate::resource::{Resource, ResourceValue, ResourceValues};
use crate::resource_type::{CatalogResources, GenerationPhase, ResourceContext, ResourceType};
use crate::schema::{RELATION_METAPARAMETERS, TypeSchema};
use crate::type_source::ResourceTypeSource;
use crate::types;

/// How applying one resource ended.
#[derive(Debug)]
pub struct ApplyOutcome {
    /// `User[rip]`.
    pub resource: String,
    /// What was, or would be, changed; failures too.
    pub events: Vec<ChangeEvent>,
    /// What was said meanwhile: a command's output, a message.
    pub log: Vec<String>,
    /// Why a read-only engine did not evaluate the resource: what it would have had to run.
    pub not_evaluated: Option<String>,
    /// The first thing that went wrong, if something did.
    pub error: Option<EngineError>,
}

impl ApplyOutcome {
    /// Whether something was changed.
    pub fn has_changed(&self) -> bool {
        self.events
            .iter()
            .any(|event| event.status == ChangeEventStatus::Success)
    }
}

/// All resource types, on one machine.
#[derive(Debug, Clone)]
pub struct ResourceEngine {
    system: Arc<dyn System>,
    types: Arc<Vec<Box<dyn ResourceType>>>,
    foreign: Option<Arc<dyn ResourceTypeSource>>,
    read_only: bool,
}

impl ResourceEngine {
    /// All types of this engine on that machine.
    pub fn new(system: Arc<dyn System>) -> Self {
        Self {
            system,
            types: Arc::new(types::builtin_types()),
            foreign: None,
            read_only: false,
        }
    }

    /// The same for plans of remote callers: changes nothing, and starts no program but the engine's own reading tools. What would
    /// have to run another one is not evaluated, see [`EngineError::is_not_evaluated`]; so are types that are not the engine's own.
    #[must_use]
    pub fn to_read_only(&self) -> Self {
        Self {
            system: Arc::new(ReadOnlySystem::new(Arc::clone(&self.system))),
            read_only: true,
            ..self.clone()
        }
    }

    /// Whether it only reads.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// The same, with somebody to ask about types that are not the engine's own.
    #[must_use]
    pub fn with_type_source(mut self, foreign: Arc<dyn ResourceTypeSource>) -> Self {
        self.foreign = Some(foreign);
        self
    }

    /// The same, with nobody else to ask.
    #[must_use]
    pub fn without_type_source(&self) -> Self {
        Self {
            foreign: None,
            ..self.clone()
        }
    }

    /// Whether a type of that name is the engine's own.
    pub fn is_builtin_type(&self, type_name: &str) -> bool {
        self.type_schemas()
            .any(|schema| schema.type_name == type_name)
    }

    /// What every type accepts, in the order of their names.
    pub fn type_schemas(&self) -> impl Iterator<Item = &'static TypeSchema> {
        self.types.iter().map(|known| known.schema())
    }

    /// What a type accepts, whoever knows it.
    pub fn type_schema(&self, type_name: &str) -> Result<&'static TypeSchema, EngineError> {
        self.type_named(type_name).map(|known| known.schema())
    }

    /// Judges a resource before anything is touched. Metaparameters that relate resources to each other are refused:
    /// there is only one.
    pub fn check_resource(
        &self,
        type_name: &str,
        title: &str,
        words: &serde_json::Map<String, serde_json::Value>,
    ) -> Result<Resource, EngineError> {
        let known = self.type_named(type_name)?;
        let resource = munge::munge_resource(known.schema(), title, words)?;
        if let Some(relation) = RELATION_METAPARAMETERS
            .iter()
            .find(|relation| resource.get(relation).is_some())
        {
            let problem =
                "orders the resources of a catalog, and this is a single resource; leave it out";
            return Err(EngineError::invalid_value(&resource, relation, problem));
        }
        known.check(resource)
    }

    /// Judges a resource of a catalog before anything is touched: it may relate to others.
    pub fn check_catalog_resource(
        &self,
        type_name: &str,
        title: &str,
        words: &serde_json::Map<String, serde_json::Value>,
    ) -> Result<Resource, EngineError> {
        let known = self.type_named(type_name)?;
        known.check(munge::munge_resource(known.schema(), title, words)?)
    }

    /// A resource of which nothing is desired. The name is not judged: `*` stands for all in messages.
    pub fn empty_resource(&self, type_name: &str, title: &str) -> Result<Resource, EngineError> {
        Resource::without_values(self.type_named(type_name)?.schema(), title)
    }

    /// What would change. Reads the machine, changes nothing (an exec's guards run, as they decide).
    pub fn plan_resource(
        &self,
        resource: &Resource,
        cancel: CancelFlag,
    ) -> Result<ResourcePlan, EngineError> {
        let known = self.type_named(&resource.type_name)?;
        plan_with_type(
            &*known,
            &ResourceContext::new(&*self.system, cancel),
            resource,
        )
    }

    /// Brings the resource to its state, or with `noop` (here or in the resource) only says what would change.
    pub fn apply_resource(
        &self,
        resource: &Resource,
        cancel: CancelFlag,
        noop: bool,
    ) -> ApplyOutcome {
        self.apply_with_plan_hook(resource, cancel, noop, &mut |_| Ok(()))
    }

    /// The same; `before` sees the plan before the first change is made, and when it fails, nothing is changed.
    pub fn apply_with_plan_hook(
        &self,
        resource: &Resource,
        cancel: CancelFlag,
        noop: bool,
        before: &mut dyn FnMut(&ResourcePlan) -> Result<(), EngineError>,
    ) -> ApplyOutcome {
        let cx = ResourceContext::new(&*self.system, cancel);
        let mut outcome = ApplyOutcome {
            resource: resource.reference(),
            events: Vec::new(),
            log: Vec::new(),
            not_evaluated: None,
            error: None,
        };
        let planned = self
            .type_named(&resource.type_name)
            .and_then(|known| plan_with_type(&*known, &cx, resource).map(|plan| (known, plan)));
        match planned {
            Err(error) if error.is_not_evaluated() => outcome.not_evaluated = Some(error.reason()),
            Ok((_, plan)) if noop || self.read_only || resource.get_flag("noop") => {
                let planned = |change: &PropertyChange| {
                    change.to_event(&outcome.resource, &ChangeOutcome::Planned)
                };
                outcome.events = plan.changes.iter().map(planned).collect();
            }
            Ok((_, plan)) if plan.is_empty() => {}
            Ok((known, plan)) => match before(&plan) {
                Ok(()) => apply_changes(&*known, &cx, &plan, &mut outcome),
                Err(error) => outcome.error = Some(error),
            },
            Err(error) => outcome.error = Some(error),
        }
        if let Err(error) = cx.sync_created_files() {
            let failed = EngineError::during(resource, "waiting for the disk")(error);
            outcome.error.get_or_insert(failed);
        }
        outcome.log = cx.log.take();
        outcome
    }

    /// Everything the machine says about one resource; `ensure` is `absent` when it is not there.
    pub fn find_state(&self, type_name: &str, title: &str) -> Result<ResourceState, EngineError> {
        let known = self.type_named(type_name)?;
        known.find(
            &ResourceContext::new(&*self.system, CancelFlag::default()),
            title,
        )
    }

    /// Every resource of the type: title and properties.
    pub fn list_instances(
        &self,
        type_name: &str,
    ) -> Result<Vec<(String, ResourceValues)>, EngineError> {
        let known = self.type_named(type_name)?;
        known.list_instances(&ResourceContext::new(&*self.system, CancelFlag::default()))
    }

    /// What types work with, on this engine's machine.
    pub(crate) fn resource_context(&self, cancel: CancelFlag) -> ResourceContext<'_> {
        ResourceContext::new(&*self.system, cancel)
    }

    /// What would change, in a context that is kept.
    pub(crate) fn plan_in_context(
        &self,
        cx: &ResourceContext<'_>,
        resource: &Resource,
    ) -> Result<ResourcePlan, EngineError> {
        plan_with_type(&*self.type_named(&resource.type_name)?, cx, resource)
    }

    /// Makes one change of a plan.
    pub(crate) fn apply_change(
        &self,
        cx: &ResourceContext<'_>,
        plan: &ResourcePlan,
        change: &PropertyChange,
    ) -> Result<(), EngineError> {
        let known = self.type_named(&plan.resource.type_name)?;
        apply_change_with_type(&*known, cx, plan, change)
    }

    /// Refreshes it.
    pub(crate) fn refresh_resource(
        &self,
        cx: &ResourceContext<'_>,
        resource: &Resource,
    ) -> Result<(), EngineError> {
        self.type_named(&resource.type_name)?.refresh(cx, resource)
    }

    /// Whether a refresh means anything to it.
    pub(crate) fn supports_refresh(&self, resource: &Resource) -> bool {
        self.type_named(&resource.type_name)
            .is_ok_and(|known| known.supports_refresh())
    }

    /// Whether its own change refreshes it. What is to go is not refreshed.
    pub(crate) fn refreshes_itself(&self, resource: &Resource) -> bool {
        let is_to_go = resource.get_text("ensure") == Some("absent");
        !is_to_go
            && self
                .type_named(&resource.type_name)
                .is_ok_and(|known| known.refreshes_itself())
    }

    /// Whether the change spares a refresh.
    pub(crate) fn spares_refresh(&self, resource: &Resource, change: &PropertyChange) -> bool {
        self.type_named(&resource.type_name)
            .is_ok_and(|known| known.spares_refresh(change))
    }

    /// The name of the provider at work.
    pub(crate) fn provider_name(
        &self,
        cx: &ResourceContext<'_>,
        resource: &Resource,
    ) -> Option<String> {
        let known = self.type_named(&resource.type_name).ok()?;
        known.provider_name(cx, resource)
    }

    /// What comes first without being told to: types and names.
    pub(crate) fn autorequires(
        &self,
        resource: &Resource,
        siblings: &dyn CatalogResources,
    ) -> Vec<(String, String)> {
        let Ok(known) = self.type_named(&resource.type_name) else {
            return Vec::new();
        };
        let wanted = known.autorequires(resource, siblings).into_iter();
        wanted
            .map(|(type_name, name)| (type_name.to_owned(), name))
            .collect()
    }

    /// When it brings others with it.
    pub(crate) fn generation_phase(&self, resource: &Resource) -> GenerationPhase {
        self.type_named(&resource.type_name)
            .map_or(GenerationPhase::Never, |known| {
                known.generation_phase(resource)
            })
    }

    /// What it brings with it.
    pub(crate) fn generate_resources(
        &self,
        cx: &ResourceContext<'_>,
        resource: &Resource,
        siblings: &dyn CatalogResources,
    ) -> Result<Vec<Resource>, EngineError> {
        self.type_named(&resource.type_name)?
            .generate_resources(cx, resource, siblings)
    }

    /// The properties that are desired, without those that are secret.
    pub(crate) fn managed_properties<'r>(
        &self,
        resource: &'r Resource,
    ) -> Vec<(&'static str, &'r ResourceValue)> {
        let Ok(known) = self.type_named(&resource.type_name) else {
            return Vec::new();
        };
        known
            .schema()
            .properties()
            .filter(|property| !property.sensitive)
            .filter_map(|property| Some((property.name, resource.get(property.name)?)))
            .collect()
    }

    fn type_named(&self, name: &str) -> Result<ResolvedResourceType<'_>, EngineError> {
        let mut own = self.types.iter();
        if let Some(known) = own.find(|known| known.schema().type_name == name) {
            return Ok(ResolvedResourceType::Own(known.as_ref()));
        }
        let foreign = match &self.foreign {
            Some(foreign) => foreign.type_named(name)?,
            None => None,
        };
        foreign
            .map(|known| {
                if self.read_only {
                    ResolvedResourceType::Foreign(Arc::new(UnevaluatedResourceType::new(known)))
                } else {
                    ResolvedResourceType::Foreign(known)
                }
            })
            .ok_or_else(|| EngineError::UnknownType {
                name: name.to_owned(),
                suggestion: munge::nearest_name(
                    name,
                    self.type_schemas().map(|schema| schema.type_name),
                ),
            })
    }
}

/// A type, whoever knows it.
enum ResolvedResourceType<'a> {
    Own(&'a dyn ResourceType),
    Foreign(Arc<dyn ResourceType>),
}

impl<'a> Deref for ResolvedResourceType<'a> {
    type Target = dyn ResourceType + 'a;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Own(known) => *known,
            Self::Foreign(known) => known.as_ref(),
        }
    }
}

fn plan_with_type(
    known: &dyn ResourceType,
    cx: &ResourceContext<'_>,
    resource: &Resource,
) -> Result<ResourcePlan, EngineError> {
    known.read_and_plan(cx, resource)
}

/// One change after the other. A failed one does not keep the next from being made, as in Puppet; a cancel does.
fn apply_changes(
    known: &dyn ResourceType,
    cx: &ResourceContext<'_>,
    plan: &ResourcePlan,
    outcome: &mut ApplyOutcome,
) {
    for change in &plan.changes {
        match apply_change_with_type(known, cx, plan, change) {
            Ok(()) => outcome
                .events
                .push(change.to_event(&outcome.resource, &ChangeOutcome::Made)),
            Err(error) => {
                let reason = error.reason();
                outcome
                    .events
                    .push(change.to_event(&outcome.resource, &ChangeOutcome::Failed(&reason)));
                outcome.error.get_or_insert(error);
            }
        }
    }
}

fn apply_change_with_type(
    known: &dyn ResourceType,
    cx: &ResourceContext<'_>,
    plan: &ResourcePlan,
    change: &PropertyChange,
) -> Result<(), EngineError> {
    if cx.cancel.is_cancelled() {
        return Err(EngineError::failed(
            &plan.resource,
            "the request was cancelled before this change",
        ));
    }
    known.apply_change(cx, plan, change)
}
