//! The door to the engine: check, plan, apply, find and search resources by the name of their type.

use std::fmt;
use std::sync::Arc;

use muster_system::System;
use muster_system::command::Cancel;

use crate::error::EngineError;
use crate::event::Event;
use crate::plan::{Plan, State};
use crate::resource::{Resource, Values};
use crate::schema::Schema;

/// A resource type: three verbs and a list.
pub trait ResourceType: fmt::Debug + Send + Sync {
    /// What it accepts.
    fn schema(&self) -> &'static Schema;

    /// Checks that concern several values at once, and fills in what follows from the title. Pure.
    fn check(&self, resource: Resource) -> Result<Resource, EngineError> {
        Ok(resource)
    }

    /// What the machine says about this resource. Reads only what the desired values need.
    fn read(&self, cx: &Cx<'_>, resource: &Resource) -> Result<State, EngineError>;

    /// The difference. Pure. The default compares each desired property with the found one.
    fn plan(&self, resource: &Resource, state: &State) -> Plan;

    /// Makes the changes, one after the other; `done` is told after each, so that nothing is lost when a later one fails.
    fn apply(&self, cx: &Cx<'_>, plan: &Plan, done: &mut dyn FnMut(Event)) -> Result<(), EngineError>;

    /// Every resource of this type on the machine: title and properties.
    fn instances(&self, cx: &Cx<'_>) -> Result<Vec<(String, Values)>, EngineError>;
}

/// What a type works with.
#[derive(Debug)]
pub struct Cx<'a> {
    /// The machine.
    pub system: &'a dyn System,
    /// Raised when the caller has given up.
    pub cancel: Cancel,
}

/// How applying one resource ended.
#[derive(Debug)]
pub struct Outcome {
    /// `User[rip]`.
    pub resource: String,
    /// What was, or would be, changed; failures too.
    pub events: Vec<Event>,
    /// What went wrong, if something did.
    pub error: Option<EngineError>,
}

/// All resource types, on one machine.
#[derive(Debug, Clone)]
pub struct Engine {
    system: Arc<dyn System>,
    types: Arc<Vec<Box<dyn ResourceType>>>,
}
