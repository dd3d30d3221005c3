//! One resource brought to its state, or only planned: what the actions `do` and `plan` share.
//!
//! check -> may it be changed -> turn -> is it Puppet's -> apply -> report. Nothing is touched before the last but one.

use std::sync::Arc;

use muster_api::system::System;
use muster_api::system::command::Cancel;
use muster_api::{ActionError, Context};
use muster_engine::Engine;
use muster_engine::engine::Outcome;
use muster_engine::event::{Event, EventStatus};
use muster_engine::resource::Resource;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::managed::{self, Managed};
use crate::options::Options;
use crate::run_lock::{RunLock, Turn, lock_file};
use crate::{policy, refusal};

/// Makes changes, within the options, one after the other.
#[derive(Debug)]
pub(crate) struct Changer {
    options: Arc<Options>,
    lock: RunLock,
}

/// A resource as it was asked for. Not shown anywhere: there may be passwords in it.
pub(crate) struct Wanted {
    pub(crate) type_name: String,
    pub(crate) title: String,
    pub(crate) words: Map<String, Value>,
}

/// How it went.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct Report {
    /// Whether anything changed; in a plan, whether anything would.
    pub(crate) changed: bool,
    pub(crate) result: String,
    #[cfg_attr(test, schemars(with = "Vec<Value>"))]
    pub(crate) events: Vec<Event>,
    pub(crate) resource: String,
    pub(crate) log: Vec<String>,
}

impl Changer {
    pub(crate) fn new(options: Arc<Options>) -> Self {
        Self {
            options,
            lock: RunLock::default(),
        }
    }

    /// Brings the resource to its state, or with `noop` only says what would change.
    pub(crate) async fn bring(
        &self,
        cx: &Context,
        wanted: Wanted,
        noop: bool,
    ) -> Result<Report, ActionError> {
        let type_name = wanted.type_name.to_lowercase();
        policy::check_type(&self.options, &type_name)?;
        let engine = Engine::new(Arc::clone(&cx.system));
        let resource = engine
            .check(&type_name, &wanted.title, &wanted.words)
            .map_err(|error| refusal::of_engine(&error))?;
        policy::check_resource(&self.options, &engine, &resource)?;
        let turn = if noop {
            None
        } else {
            Some(self.lock.turn(cx, &self.options).await?)
        };
        let work = Work {
            system: Arc::clone(&cx.system),
            options: Arc::clone(&self.options),
            engine,
            resource,
            turn,
        };
        let outcome = cx.blocking(move |cancel| work.run(cancel)).await??;
        report(outcome)
    }
}

/// What is done on a thread of its own.
struct Work {
    system: Arc<dyn System>,
    options: Arc<Options>,
    engine: Engine,
    resource: Resource,
    /// Absent when nothing is to be changed.
    turn: Option<Turn>,
}

impl Work {
    fn run(self, cancel: Cancel) -> Result<Outcome, ActionError> {
        self.leave_managed_alone()?;
        let lock = match self.turn {
            Some(_) => Some(lock_file(&*self.system, self.options.lock_wait)),
            None => None,
        };
        let _until_it_is_done = lock
            .transpose()
            .map_err(|error| refusal::of_system(&error))?;
        Ok(self
            .engine
            .apply(&self.resource, cancel, self.turn.is_none()))
    }

    fn leave_managed_alone(&self) -> Result<(), ActionError> {
        if self.options.allow_managed {
            return Ok(());
        }
        let managed = managed::look_up(&*self.system, &self.options, &self.resource);
        if managed.map_err(|error| refusal::of_system(&error))? != Managed::Yes {
            return Ok(());
        }
        let message = format!(
            "{} is managed by Puppet, which would change it back; change its manifest",
            self.resource.reference()
        );
        Err(ActionError::denied(
            message,
            "plugins.puppetral.allow_managed",
        ))
    }
}

fn report(outcome: Outcome) -> Result<Report, ActionError> {
    let Outcome {
        resource,
        events,
        log,
        error,
    } = outcome;
    let failure = events
        .iter()
        .find(|event| event.status == EventStatus::Failure);
    let failure = match (failure, &error) {
        (None, None) => None,
        (None, Some(error)) if error.is_invalid() => return Err(refusal::of_engine(error)),
        (None, Some(error)) => Some(error.reason()),
        (Some(event), _) => Some(event.message.clone()),
    };
    let report = Report {
        changed: events
            .iter()
            .any(|event| event.status != EventStatus::Failure),
        result: failure.clone().unwrap_or_else(|| result(&events)),
        events,
        resource,
        log,
    };
    let Some(failure) = failure else {
        return Ok(report);
    };
    let failed = ActionError::failed(format!("{}: {failure}", report.resource));
    match serde_json::to_value(&report) {
        Ok(Value::Object(data)) => Err(failed.with_data(data)),
        _ => Err(failed),
    }
}

/// The events in a sentence.
fn result(events: &[Event]) -> String {
    if events.is_empty() {
        return "no changes".to_owned();
    }
    let messages: Vec<String> = events
        .iter()
        .map(|event| match event.status {
            EventStatus::Noop => format!("{}: {}", event.property, event.message),
            EventStatus::Success | EventStatus::Failure => event.message.clone(),
        })
        .collect();
    messages.join("; ")
}
