//! One resource brought to its state, or only planned: what the actions `do` and `plan` share.
//!
//! check -> may it be changed -> turn -> is it Puppet's -> apply -> report. Nothing is touched before the last but one.

use std::sync::Arc;

use muster_api::system::command::Cancel;
use muster_api::system::error::chain;
use muster_api::system::{StateDir, System};
use muster_api::{ActionError, Context};
use muster_engine::engine::Outcome;
use muster_engine::event::{Event, EventStatus};
use muster_engine::plan::Plan;
use muster_engine::resource::Resource;
use muster_engine::undo::{Record, UndoError};
use muster_engine::{Engine, EngineError};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::engines::{Engines, check_foreign};
use crate::managed::{self, Managed};
use crate::options::Options;
use crate::run_lock::{RunLock, Turn, hold_puppet, lock_file};
use crate::{policy, refusal};

/// Makes changes, within the options, one after the other.
#[derive(Debug)]
pub(crate) struct Changer {
    options: Arc<Options>,
    engines: Arc<Engines>,
    lock: RunLock,
}

/// A resource as it was asked for. Not shown anywhere: there may be passwords in it.
pub(crate) struct Wanted {
    pub(crate) type_name: String,
    pub(crate) title: String,
    pub(crate) words: Map<String, Value>,
}

/// What is done with a wanted resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// It is changed.
    Apply,
    /// `do noop=true`: reads as a change would, guards included, and changes nothing.
    Noop,
    /// `plan`: reads, and starts no program of the caller's choosing.
    Plan,
}

/// How it went.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct Report {
    /// Whether anything changed; in a plan, whether anything would, or could where the resource was not evaluated.
    pub(crate) changed: bool,
    pub(crate) result: String,
    #[cfg_attr(test, schemars(with = "Vec<Value>"))]
    pub(crate) events: Vec<Event>,
    pub(crate) resource: String,
    pub(crate) log: Vec<String>,
}

impl Changer {
    pub(crate) fn new(options: Arc<Options>, engines: Arc<Engines>) -> Self {
        Self {
            options,
            engines,
            lock: RunLock::default(),
        }
    }

    /// What an earlier request replaced here, as something that is wanted again.
    pub(crate) async fn recall(&self, cx: &Context, id: String) -> Result<Wanted, ActionError> {
        let options = Arc::clone(&self.options);
        cx.blocking(move |_| {
            let state = undo_state(&options)?.ok_or_else(|| {
                ActionError::failed("this node does not keep what changes replaced")
            })?;
            let record = Record::recall(&state, &id).map_err(|error| not_undone(&error))?;
            let (type_name, title) = (record.type_name.clone(), record.title.clone());
            let words = record.words().map_err(|error| not_undone(&error))?;
            Ok(Wanted {
                type_name,
                title,
                words,
            })
        })
        .await?
    }

    /// Brings the resource to its state, or only says what would change.
    pub(crate) async fn bring(
        &self,
        cx: &Context,
        wanted: Wanted,
        mode: Mode,
    ) -> Result<Report, ActionError> {
        let type_name = wanted.type_name.to_lowercase();
        policy::check_type(&self.options, &type_name)?;
        let engine = match mode {
            Mode::Plan => self.engines.on(&cx.system).read_only(),
            Mode::Apply | Mode::Noop => self.engines.on(&cx.system),
        };
        let (judge, options) = (engine.clone(), Arc::clone(&self.options));
        // On a thread of its own: Puppet may have to be asked.
        let judged = cx.blocking(move |_| {
            check_foreign(&options, &judge, &type_name)?;
            let resource = judge
                .check(&type_name, &wanted.title, &wanted.words)
                .map_err(|error| refusal::of_engine(&error))?;
            policy::check_resource(&options, &judge, &resource)?;
            Ok::<_, ActionError>(resource)
        });
        let resource = judged.await??;
        let turn = match mode {
            Mode::Apply => Some(self.lock.turn(cx, &self.options).await?),
            Mode::Noop | Mode::Plan => None,
        };
        let work = Work {
            system: Arc::clone(&cx.system),
            options: Arc::clone(&self.options),
            engine,
            resource,
            turn,
            request: cx.request.to_string(),
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
    /// By which the change can be taken back.
    request: String,
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
        let puppet = self
            .turn
            .as_ref()
            .map(|_| hold_puppet(&*self.system, &self.options));
        let _so_long = puppet.transpose()?;
        let state = undo_state(&self.options)?;
        let mut keep = |plan: &Plan| {
            let Some(state) = &state else { return Ok(()) };
            let kept = Record::of(&*self.system, plan).keep(state, &self.request);
            kept.map_err(|error| {
                let problem = format!("nothing was changed, because {}", chain(&error));
                EngineError::failed(&plan.resource, problem)
            })
        };
        let noop = self.turn.is_none();
        Ok(self
            .engine
            .apply_after(&self.resource, cancel, noop, &mut keep))
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

/// Where is kept what changes replace.
fn undo_state(options: &Options) -> Result<Option<StateDir>, ActionError> {
    let state = options.state_dir.as_deref().map(StateDir::open);
    state
        .transpose()
        .map_err(|error| refusal::of_system(&error))
}

fn not_undone(error: &UndoError) -> ActionError {
    ActionError::failed(chain(error))
}

fn report(outcome: Outcome) -> Result<Report, ActionError> {
    let Outcome {
        resource,
        events,
        log,
        not_evaluated,
        error,
    } = outcome;
    let not_evaluated = not_evaluated.map(|reason| format!("not evaluated: {reason}"));
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
        changed: not_evaluated.is_some()
            || events
                .iter()
                .any(|event| event.status != EventStatus::Failure),
        result: failure
            .clone()
            .or(not_evaluated)
            .unwrap_or_else(|| result(&events)),
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
