//! Applies or plans one resource: shared by the actions `do` and `plan`.
//!
//! Order: validate, check policy, wait for the turn, check whether Puppet manages it, apply, report. Nothing is changed before `apply`.

use std::sync::Arc;

use muster_api::base::error_chain;
use muster_api::system::command::CancelFlag;
use muster_api::system::{StateDir, System};
use muster_api::{ActionError, CallContext};
use muster_engine::engine::ApplyOutcome;
use muster_engine::event::{ChangeEvent, ChangeEventStatus};
use muster_engine::plan::ResourcePlan;
use muster_engine::resource::Resource;
use muster_engine::undo::UndoRecord;
use muster_engine::{EngineError, ResourceEngine};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::engines::{EngineFactory, check_foreign, from_engine_error};
use crate::managed::{self, ManagedStatus};
use crate::options::Options;
use crate::policy;
use crate::run_lock::{ChangeGuard, ChangeQueue, acquire_lock_file, lock_puppet};

/// Applies changes within the options, one at a time.
#[derive(Debug)]
pub(crate) struct ResourceChanger {
    options: Arc<Options>,
    engines: Arc<EngineFactory>,
    lock: ChangeQueue,
}

/// A requested resource. Has no `Debug`, because it may contain passwords.
pub(crate) struct DesiredResource {
    pub(crate) type_name: String,
    pub(crate) title: String,
    pub(crate) attributes: Map<String, Value>,
}

/// How a requested resource is processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangeMode {
    /// Changes the resource.
    Apply,
    /// `do noop=true`: reads like a change, guards included, and changes nothing.
    Noop,
    /// `plan`: reads, and starts no program that the caller chose.
    Plan,
}

/// How it went.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ChangeReport {
    /// Whether anything changed; in a plan, whether anything would, or could where the resource was not evaluated.
    pub(crate) changed: bool,
    pub(crate) result: String,
    #[schemars(with = "Vec<Value>")]
    pub(crate) events: Vec<ChangeEvent>,
    pub(crate) resource: String,
    pub(crate) log: Vec<String>,
}

/// How it went, for callers that may change the node and so may see the content of files.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct AppliedChange {
    #[serde(flatten)]
    pub(crate) report: ChangeReport,
    /// The unified diff of the content of a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) diff: Option<String>,
}

impl ResourceChanger {
    pub(crate) fn new(engines: Arc<EngineFactory>) -> Self {
        Self { options: Arc::clone(&engines.options), engines, lock: ChangeQueue::default() }
    }

    /// The resource as it was before an earlier request, as a new desired state.
    pub(crate) async fn recall_resource(
        &self,
        cx: &CallContext,
        id: String,
    ) -> Result<DesiredResource, ActionError> {
        let options = Arc::clone(&self.options);
        cx.run_blocking_in_context(move |_| {
            let state = open_undo_state(&options)?
                .ok_or_else(|| ActionError::failed("this node keeps no undo records"))?;
            let record = UndoRecord::load(&state, &id).map_err(ActionError::from_cause)?;
            let (type_name, title) = (record.type_name.clone(), record.title.clone());
            let attributes = record.into_values().map_err(ActionError::from_cause)?;
            Ok(DesiredResource { type_name, title, attributes })
        })
        .await
    }

    /// Applies the resource, or reports what would change.
    pub(crate) async fn apply_resource(
        &self,
        cx: &CallContext,
        desired: DesiredResource,
        mode: ChangeMode,
    ) -> Result<AppliedChange, ActionError> {
        let type_name = desired.type_name.to_lowercase();
        policy::check_type(&self.options, &type_name)?;
        let engine = match mode {
            ChangeMode::Plan => self.engines.engine_for(&cx.system).to_read_only(),
            ChangeMode::Apply | ChangeMode::Noop => self.engines.engine_for(&cx.system),
        };
        let (checker, options) = (engine.clone(), Arc::clone(&self.options));
        // On a blocking thread: validation may have to query Puppet.
        let check = cx.run_blocking(move |_| {
            check_foreign(&options, &checker, &type_name)?;
            let resource = checker
                .check_resource(&type_name, &desired.title, &desired.attributes)
                .map_err(from_engine_error)?;
            policy::check_resource(&options, &checker, &resource)?;
            Ok::<_, ActionError>(resource)
        });
        let resource = check.await??;
        let change_guard = match mode {
            ChangeMode::Apply => Some(self.lock.wait_for_turn(cx, &self.options).await?),
            ChangeMode::Noop | ChangeMode::Plan => None,
        };
        let task = ChangeTask {
            system: Arc::clone(&cx.system),
            options: Arc::clone(&self.options),
            engine,
            resource,
            change_guard,
            request: cx.request.to_string(),
        };
        let outcome = cx.run_blocking(move |cancel| task.run_change(cancel)).await??;
        build_report(outcome)
    }
}

/// Work that runs on a blocking thread.
struct ChangeTask {
    system: Arc<dyn System>,
    options: Arc<Options>,
    engine: ResourceEngine,
    resource: Resource,
    /// Absent when nothing is to be changed.
    change_guard: Option<ChangeGuard>,
    /// Id under which the change can be undone.
    request: String,
}

impl ChangeTask {
    fn run_change(self, cancel: CancelFlag) -> Result<ApplyOutcome, ActionError> {
        self.refuse_managed()?;
        let lock = match self.change_guard {
            Some(_) => Some(acquire_lock_file(&*self.system, self.options.lock_wait)),
            None => None,
        };
        let _lock_file = lock.transpose()?;
        let puppet_locks =
            self.change_guard.as_ref().map(|_| lock_puppet(&*self.system, &self.options));
        let _puppet_locks = puppet_locks.transpose()?;
        let state = open_undo_state(&self.options)?;
        // Saves the undo record before the change; if that fails, nothing is changed.
        let mut save_undo = |plan: &ResourcePlan| {
            let Some(state) = &state else { return Ok(()) };
            let saved = UndoRecord::from_plan(&*self.system, plan).save(state, &self.request);
            saved.map_err(|error| {
                let problem = format!("nothing was changed: {}", error_chain(&error));
                EngineError::failed(&plan.resource, problem)
            })
        };
        let noop = self.change_guard.is_none();
        Ok(self.engine.apply_with_plan_hook(&self.resource, cancel, noop, &mut save_undo))
    }

    fn refuse_managed(&self) -> Result<(), ActionError> {
        if self.options.allow_managed {
            return Ok(());
        }
        let managed = managed::look_up_managed(&*self.system, &self.options, &self.resource);
        if managed? != ManagedStatus::Yes {
            return Ok(());
        }
        let message = format!(
            "{} is managed by Puppet, which would revert the change; change the manifest instead",
            self.resource.reference()
        );
        Err(ActionError::denied_by_rule(message, "plugins.puppetral.allow_managed"))
    }
}

/// Opens the directory of the undo records, if configured.
fn open_undo_state(options: &Options) -> Result<Option<StateDir>, ActionError> {
    Ok(options.state_dir.as_deref().map(StateDir::open).transpose()?)
}

fn build_report(outcome: ApplyOutcome) -> Result<AppliedChange, ActionError> {
    let ApplyOutcome { resource, events, diff, log, not_evaluated, error } = outcome;
    let not_evaluated = not_evaluated.map(|reason| format!("not evaluated: {reason}"));
    let failure = events.iter().find(|event| event.status == ChangeEventStatus::Failure);
    let failure = match (failure, error) {
        (None, None) => None,
        (None, Some(error)) if error.is_invalid() => return Err(from_engine_error(error)),
        (None, Some(error)) => Some(error.reason()),
        (Some(event), _) => Some(event.message.clone()),
    };
    let report = ChangeReport {
        changed: not_evaluated.is_some()
            || events.iter().any(|event| event.status != ChangeEventStatus::Failure),
        result: failure.clone().or(not_evaluated).unwrap_or_else(|| summarise_events(&events)),
        events,
        resource,
        log,
    };
    let Some(failure) = failure else {
        return Ok(AppliedChange { report, diff });
    };
    let failed = ActionError::failed(format!("{}: {failure}", report.resource));
    Err(failed.with_output(&AppliedChange { report, diff }))
}

/// The events as one sentence.
fn summarise_events(events: &[ChangeEvent]) -> String {
    if events.is_empty() {
        return "no changes".to_owned();
    }
    let messages: Vec<String> = events
        .iter()
        .map(|event| match event.status {
            ChangeEventStatus::Noop => format!("{}: {}", event.property, event.message),
            ChangeEventStatus::Success | ChangeEventStatus::Failure => event.message.clone(),
        })
        .collect();
    messages.join("; ")
}
