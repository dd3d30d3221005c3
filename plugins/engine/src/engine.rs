//! The door to the engine: check, plan, apply, find and search resources by the name of their type.

use std::ops::Deref;
use std::sync::Arc;

use muster_system::System;
use muster_system::command::Cancel;

use crate::error::EngineError;
use crate::event::{Event, EventStatus};
use crate::foreign::Foreign;
use crate::munge;
use crate::plan::{Change, ChangeOutcome, Plan, State};
use crate::read_only::{ReadOnlySystem, UnevaluatedType};
use crate::resource::{Resource, Value, Values};
use crate::resource_type::{Cx, Generates, ResourceType, Siblings};
use crate::schema::{RELATIONS, Schema};
use crate::types;

/// How applying one resource ended.
#[derive(Debug)]
pub struct Outcome {
    /// `User[rip]`.
    pub resource: String,
    /// What was, or would be, changed; failures too.
    pub events: Vec<Event>,
    /// What was said meanwhile: a command's output, a message.
    pub log: Vec<String>,
    /// Why a read-only engine did not evaluate the resource: what it would have had to run.
    pub not_evaluated: Option<String>,
    /// The first thing that went wrong, if something did.
    pub error: Option<EngineError>,
}

impl Outcome {
    /// Whether something was changed.
    pub fn changed(&self) -> bool {
        self.events
            .iter()
            .any(|event| event.status == EventStatus::Success)
    }
}

/// All resource types, on one machine.
#[derive(Debug, Clone)]
pub struct Engine {
    system: Arc<dyn System>,
    types: Arc<Vec<Box<dyn ResourceType>>>,
    foreign: Option<Arc<dyn Foreign>>,
    read_only: bool,
}

impl Engine {
    /// All types of this engine on that machine.
    pub fn new(system: Arc<dyn System>) -> Self {
        Self {
            system,
            types: Arc::new(types::all()),
            foreign: None,
            read_only: false,
        }
    }

    /// The same for plans of remote callers: changes nothing, and starts no program but the engine's own reading tools. What would
    /// have to run another one is not evaluated, see [`EngineError::is_not_evaluated`]; so are types that are not the engine's own.
    #[must_use]
    pub fn read_only(&self) -> Self {
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
    pub fn with_foreign(mut self, foreign: Arc<dyn Foreign>) -> Self {
        self.foreign = Some(foreign);
        self
    }

    /// The same, with nobody else to ask.
    #[must_use]
    pub fn own_only(&self) -> Self {
        Self {
            foreign: None,
            ..self.clone()
        }
    }

    /// Whether a type of that name is the engine's own.
    pub fn is_own(&self, type_name: &str) -> bool {
        self.types().any(|schema| schema.type_name == type_name)
    }

    /// What every type accepts, in the order of their names.
    pub fn types(&self) -> impl Iterator<Item = &'static Schema> {
        self.types.iter().map(|known| known.schema())
    }

    /// What a type accepts, whoever knows it.
    pub fn schema(&self, type_name: &str) -> Result<&'static Schema, EngineError> {
        self.type_named(type_name).map(|known| known.schema())
    }

    /// Judges a resource before anything is touched. Metaparameters that relate resources to each other are refused:
    /// there is only one.
    pub fn check(
        &self,
        type_name: &str,
        title: &str,
        words: &serde_json::Map<String, serde_json::Value>,
    ) -> Result<Resource, EngineError> {
        let known = self.type_named(type_name)?;
        let resource = munge::munge(known.schema(), title, words)?;
        if let Some(relation) = RELATIONS
            .iter()
            .find(|relation| resource.get(relation).is_some())
        {
            let problem =
                "orders the resources of a catalog, and this is a single resource; leave it out";
            return Err(EngineError::invalid(&resource, relation, problem));
        }
        known.check(resource)
    }

    /// Judges a resource of a catalog before anything is touched: it may relate to others.
    pub fn check_among_others(
        &self,
        type_name: &str,
        title: &str,
        words: &serde_json::Map<String, serde_json::Value>,
    ) -> Result<Resource, EngineError> {
        let known = self.type_named(type_name)?;
        known.check(munge::munge(known.schema(), title, words)?)
    }

    /// A resource of which nothing is desired. The name is not judged: `*` stands for all in messages.
    pub fn named(&self, type_name: &str, title: &str) -> Result<Resource, EngineError> {
        Resource::named(self.type_named(type_name)?.schema(), title)
    }

    /// What would change. Reads the machine, changes nothing (an exec's guards run, as they decide).
    pub fn plan(&self, resource: &Resource, cancel: Cancel) -> Result<Plan, EngineError> {
        let known = self.type_named(&resource.type_name)?;
        plan(&*known, &Cx::new(&*self.system, cancel), resource)
    }

    /// Brings the resource to its state, or with `noop` (here or in the resource) only says what would change.
    pub fn apply(&self, resource: &Resource, cancel: Cancel, noop: bool) -> Outcome {
        self.apply_after(resource, cancel, noop, &mut |_| Ok(()))
    }

    /// The same; `before` sees the plan before the first change is made, and when it fails, nothing is changed.
    pub fn apply_after(
        &self,
        resource: &Resource,
        cancel: Cancel,
        noop: bool,
        before: &mut dyn FnMut(&Plan) -> Result<(), EngineError>,
    ) -> Outcome {
        let cx = Cx::new(&*self.system, cancel);
        let mut outcome = Outcome {
            resource: resource.reference(),
            events: Vec::new(),
            log: Vec::new(),
            not_evaluated: None,
            error: None,
        };
        let planned = self
            .type_named(&resource.type_name)
            .and_then(|known| plan(&*known, &cx, resource).map(|plan| (known, plan)));
        match planned {
            Err(error) if error.is_not_evaluated() => outcome.not_evaluated = Some(error.reason()),
            Ok((_, plan)) if noop || self.read_only || resource.flag("noop") => {
                let planned =
                    |change: &Change| change.event(&outcome.resource, &ChangeOutcome::Planned);
                outcome.events = plan.changes.iter().map(planned).collect();
            }
            Ok((_, plan)) if plan.is_empty() => {}
            Ok((known, plan)) => match before(&plan) {
                Ok(()) => carry_out(&*known, &cx, &plan, &mut outcome),
                Err(error) => outcome.error = Some(error),
            },
            Err(error) => outcome.error = Some(error),
        }
        if let Err(error) = cx.settle() {
            let failed = EngineError::during(resource, "waiting for the disk")(error);
            outcome.error.get_or_insert(failed);
        }
        outcome.log = cx.log.take();
        outcome
    }

    /// Everything the machine says about one resource; `ensure` is `absent` when it is not there.
    pub fn find(&self, type_name: &str, title: &str) -> Result<State, EngineError> {
        let known = self.type_named(type_name)?;
        known.find(&Cx::new(&*self.system, Cancel::default()), title)
    }

    /// Every resource of the type: title and properties.
    pub fn search(&self, type_name: &str) -> Result<Vec<(String, Values)>, EngineError> {
        let known = self.type_named(type_name)?;
        known.instances(&Cx::new(&*self.system, Cancel::default()))
    }

    /// What types work with, on this engine's machine.
    pub(crate) fn context(&self, cancel: Cancel) -> Cx<'_> {
        Cx::new(&*self.system, cancel)
    }

    /// What would change, in a context that is kept.
    pub(crate) fn plan_with(&self, cx: &Cx<'_>, resource: &Resource) -> Result<Plan, EngineError> {
        plan(&*self.type_named(&resource.type_name)?, cx, resource)
    }

    /// Makes one change of a plan.
    pub(crate) fn make(
        &self,
        cx: &Cx<'_>,
        plan: &Plan,
        change: &Change,
    ) -> Result<(), EngineError> {
        let known = self.type_named(&plan.resource.type_name)?;
        make(&*known, cx, plan, change)
    }

    /// Refreshes it.
    pub(crate) fn refresh(&self, cx: &Cx<'_>, resource: &Resource) -> Result<(), EngineError> {
        self.type_named(&resource.type_name)?.refresh(cx, resource)
    }

    /// Whether a refresh means anything to it.
    pub(crate) fn refreshes(&self, resource: &Resource) -> bool {
        self.type_named(&resource.type_name)
            .is_ok_and(|known| known.refreshes())
    }

    /// Whether its own change refreshes it. What is to go is not refreshed.
    pub(crate) fn refreshes_itself(&self, resource: &Resource) -> bool {
        let is_to_go = resource.text("ensure") == Some("absent");
        !is_to_go
            && self
                .type_named(&resource.type_name)
                .is_ok_and(|known| known.refreshes_itself())
    }

    /// Whether the change spares a refresh.
    pub(crate) fn spares_refresh(&self, resource: &Resource, change: &Change) -> bool {
        self.type_named(&resource.type_name)
            .is_ok_and(|known| known.spares_refresh(change))
    }

    /// The name of the provider at work.
    pub(crate) fn provider(&self, cx: &Cx<'_>, resource: &Resource) -> Option<String> {
        let known = self.type_named(&resource.type_name).ok()?;
        known.provider(cx, resource)
    }

    /// What comes first without being told to: types and names.
    pub(crate) fn autorequires(
        &self,
        resource: &Resource,
        siblings: &dyn Siblings,
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
    pub(crate) fn generates(&self, resource: &Resource) -> Generates {
        self.type_named(&resource.type_name)
            .map_or(Generates::Never, |known| known.generates(resource))
    }

    /// What it brings with it.
    pub(crate) fn generate(
        &self,
        cx: &Cx<'_>,
        resource: &Resource,
        siblings: &dyn Siblings,
    ) -> Result<Vec<Resource>, EngineError> {
        self.type_named(&resource.type_name)?
            .generate(cx, resource, siblings)
    }

    /// The properties that are desired, without those that are secret.
    pub(crate) fn managed<'r>(&self, resource: &'r Resource) -> Vec<(&'static str, &'r Value)> {
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

    fn type_named(&self, name: &str) -> Result<Known<'_>, EngineError> {
        let mut own = self.types.iter();
        if let Some(known) = own.find(|known| known.schema().type_name == name) {
            return Ok(Known::Own(known.as_ref()));
        }
        let foreign = match &self.foreign {
            Some(foreign) => foreign.type_named(name)?,
            None => None,
        };
        foreign
            .map(|known| {
                if self.read_only {
                    Known::Foreign(Arc::new(UnevaluatedType::new(known)))
                } else {
                    Known::Foreign(known)
                }
            })
            .ok_or_else(|| EngineError::UnknownType {
                name: name.to_owned(),
                suggestion: munge::nearest(name, self.types().map(|schema| schema.type_name)),
            })
    }
}

/// A type, whoever knows it.
enum Known<'a> {
    Own(&'a dyn ResourceType),
    Foreign(Arc<dyn ResourceType>),
}

impl<'a> Deref for Known<'a> {
    type Target = dyn ResourceType + 'a;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Own(known) => *known,
            Self::Foreign(known) => known.as_ref(),
        }
    }
}

fn plan(known: &dyn ResourceType, cx: &Cx<'_>, resource: &Resource) -> Result<Plan, EngineError> {
    known.look(cx, resource)
}

/// One change after the other. A failed one does not keep the next from being made, as in Puppet; a cancel does.
fn carry_out(known: &dyn ResourceType, cx: &Cx<'_>, plan: &Plan, outcome: &mut Outcome) {
    for change in &plan.changes {
        match make(known, cx, plan, change) {
            Ok(()) => outcome
                .events
                .push(change.event(&outcome.resource, &ChangeOutcome::Made)),
            Err(error) => {
                let reason = error.reason();
                outcome
                    .events
                    .push(change.event(&outcome.resource, &ChangeOutcome::Failed(&reason)));
                outcome.error.get_or_insert(error);
            }
        }
    }
}

fn make(
    known: &dyn ResourceType,
    cx: &Cx<'_>,
    plan: &Plan,
    change: &Change,
) -> Result<(), EngineError> {
    if cx.cancel.is_cancelled() {
        return Err(EngineError::failed(
            &plan.resource,
            "the request was cancelled before this change",
        ));
    }
    known.apply(cx, plan, change)
}
