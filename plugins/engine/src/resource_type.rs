//! What a resource type must be able to do, and what it is given to do it with. The types themselves are in [`crate::types`].

use std::cell::RefCell;
use std::fmt;

use muster_system::System;
use muster_system::command::Cancel;

use crate::error::EngineError;
use crate::plan::{Change, Plan, State};
use crate::resource::{Resource, Values};
use crate::schema::Schema;

/// A resource type: three verbs, and two ways to look.
pub trait ResourceType: fmt::Debug + Send + Sync {
    /// What it accepts.
    fn schema(&self) -> &'static Schema;

    /// Checks that concern several values at once, and fills in what follows from the title. Pure.
    fn check(&self, resource: Resource) -> Result<Resource, EngineError> {
        Ok(resource)
    }

    /// What the machine says about this resource. When nothing is desired, everything is asked for.
    fn read(&self, cx: &Cx<'_>, resource: &Resource) -> Result<State, EngineError>;

    /// The difference. Pure. The default compares each desired property with the found one.
    fn plan(&self, resource: &Resource, state: &State) -> Plan {
        Plan::compare(self.schema(), resource, state)
    }

    /// Makes one change of the plan. The engine calls this for each change in order, makes the events, and goes on with
    /// the next change when one fails, as Puppet does.
    fn apply(&self, cx: &Cx<'_>, plan: &Plan, change: &Change) -> Result<(), EngineError>;

    /// Everything that the machine says about the resource of that title. The default reads a resource of which nothing
    /// is desired; types whose title does not say where to look search [`Self::instances`] instead.
    fn find(&self, cx: &Cx<'_>, title: &str) -> Result<State, EngineError> {
        self.read(cx, &Resource::named(self.schema(), title)?)
    }

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
    /// What the people should read besides events: a command's output, a message.
    pub(crate) log: RefCell<Vec<String>>,
}

impl<'a> Cx<'a> {
    /// A fresh context.
    pub fn new(system: &'a dyn System, cancel: Cancel) -> Self {
        Self {
            system,
            cancel,
            log: RefCell::default(),
        }
    }

    /// Adds a line to [`crate::engine::Outcome::log`].
    pub fn say(&self, line: impl Into<String>) {
        self.log.borrow_mut().push(line.into());
    }
}
