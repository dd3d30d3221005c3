//! Applies or plans one resource, with those that it generates, or undoes an earlier request: shared by the actions `do` and `plan`.
//!
//! Order: validate, check policy, wait for the turn, check whether Puppet manages it, apply, report. Nothing is changed before `apply`.

use std::sync::Arc;

use muster_api::base::error_chain;
use muster_api::system::command::CancelFlag;
use muster_api::system::{StateDir, System};
use muster_api::{ActionError, CallContext};
use muster_contract::puppetral::PuppetralDoOutput;
use muster_engine::apply::{ApplyHooks, ApplyOutcome};
use muster_engine::event::ChangeEventStatus;
use muster_engine::plan::ResourcePlan;
use muster_engine::resource::Resource;
use muster_engine::undo::{
    RestoreTarget, UndoError, UndoRecord, prepare_targets, remaining_differences,
};
use muster_engine::{EngineError, ResourceEngine};
use serde_json::{Map, Value};

use crate::engine_error::from_engine_error;
use crate::puppetral::engines::{EngineFactory, check_foreign};
use crate::puppetral::managed::{self, ManagedStatus};
use crate::puppetral::options::Options;
use crate::puppetral::policy;
use crate::puppetral::report::{self, ChangeOutcome};
use crate::puppetral::run_lock::{ChangeGuard, ChangeQueue, acquire_lock_file, lock_puppet};

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

impl ResourceChanger {
    pub(crate) fn new(engines: Arc<EngineFactory>) -> Self {
        Self { options: Arc::clone(&engines.options), engines, lock: ChangeQueue::default() }
    }

    /// Applies the resource, or reports what would change.
    pub(crate) async fn apply_resource(
        &self,
        cx: &CallContext,
        desired: DesiredResource,
        mode: ChangeMode,
    ) -> Result<PuppetralDoOutput, ActionError> {
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
        self.run_task(cx, engine, RequestedChange::Desired(Box::new(resource)), mode).await
    }

    /// Undoes the changes of an earlier request, or reports what would change. Without `force` it refuses to overwrite later changes.
    pub(crate) async fn undo_request(
        &self,
        cx: &CallContext,
        id: String,
        force: bool,
        mode: ChangeMode,
    ) -> Result<PuppetralDoOutput, ActionError> {
        let options = Arc::clone(&self.options);
        let engine = self.engines.engine_for(&cx.system);
        let checker = engine.clone();
        let targets = cx.run_blocking(move |_| {
            let state = open_undo_state(&options)?
                .ok_or_else(|| ActionError::failed("this node keeps no undo records"))?;
            let record = UndoRecord::load(&state, &id).map_err(ActionError::from_cause)?;
            let targets = record.into_targets().map_err(ActionError::from_cause)?;
            for target in &targets {
                policy::check_type(&options, target.type_name())?;
                check_foreign(&options, &checker, target.type_name())?;
            }
            Ok::<_, ActionError>(targets)
        });
        let targets = targets.await??;
        self.run_task(cx, engine, RequestedChange::Undo { targets, force }, mode).await
    }

    /// Waits for the turn of the change and makes it on a blocking thread.
    async fn run_task(
        &self,
        cx: &CallContext,
        engine: ResourceEngine,
        requested: RequestedChange,
        mode: ChangeMode,
    ) -> Result<PuppetralDoOutput, ActionError> {
        let change_guard = match mode {
            ChangeMode::Apply => Some(self.lock.wait_for_turn(cx, &self.options).await?),
            ChangeMode::Noop | ChangeMode::Plan => None,
        };
        let task = ChangeTask {
            system: Arc::clone(&cx.system),
            options: Arc::clone(&self.options),
            engine,
            change_guard,
            request: cx.request.to_string(),
        };
        let outcome = cx.run_blocking(move |cancel| task.run_change(requested, cancel)).await??;
        if mode != ChangeMode::Plan {
            report::record_changes(cx, &outcome.outcome);
        }
        report::build_report(outcome)
    }
}

/// What was requested.
enum RequestedChange {
    Desired(Box<Resource>),
    Undo { targets: Vec<RestoreTarget>, force: bool },
}

/// Work that runs on a blocking thread.
struct ChangeTask {
    system: Arc<dyn System>,
    options: Arc<Options>,
    engine: ResourceEngine,
    /// Absent when nothing is to be changed.
    change_guard: Option<ChangeGuard>,
    /// Id under which the change can be undone.
    request: String,
}

impl ChangeTask {
    fn run_change(
        self,
        requested: RequestedChange,
        cancel: CancelFlag,
    ) -> Result<ChangeOutcome, ActionError> {
        if let RequestedChange::Desired(resource) = &requested {
            self.refuse_managed(resource)?;
        }
        let lock = match self.change_guard {
            Some(_) => Some(acquire_lock_file(&*self.system, self.options.lock_wait)),
            None => None,
        };
        let _lock_file = lock.transpose()?;
        let puppet_locks =
            self.change_guard.as_ref().map(|_| lock_puppet(&*self.system, &self.options));
        let _puppet_locks = puppet_locks.transpose()?;
        match requested {
            RequestedChange::Desired(resource) => {
                let outcome = self.apply(std::slice::from_ref(&resource), cancel)?;
                Ok(ChangeOutcome { outcome, unrestored: Vec::new() })
            }
            RequestedChange::Undo { targets, force } => self.undo(&targets, force, cancel),
        }
    }

    fn apply(
        &self,
        resources: &[Resource],
        cancel: CancelFlag,
    ) -> Result<ApplyOutcome, ActionError> {
        let noop = self.change_guard.is_none();
        let state = open_undo_state(&self.options)?;
        let mut hooks = ChangeHooks { task: self, state, record: None };
        let mut outcome = self.engine.apply_resources(resources, cancel, noop, &mut hooks);
        // The changes are made, so this is no failure of them: without it, an undo asks for `force`.
        if let Err(error) = hooks.save_result() {
            let problem = error_chain(&error);
            outcome.log.push(format!("what the changes left could not be recorded: {problem}"));
        }
        Ok(outcome)
    }

    fn undo(
        &self,
        targets: &[RestoreTarget],
        force: bool,
        cancel: CancelFlag,
    ) -> Result<ChangeOutcome, ActionError> {
        let (mut resources, mut unrestored, mut conflicts) = (Vec::new(), Vec::new(), Vec::new());
        let all = prepare_targets(&self.engine, targets, force).map_err(from_engine_error)?;
        for prepared in all {
            unrestored.extend(prepared.unrestored);
            conflicts.extend(prepared.conflict);
            if let Some(resource) = prepared.resource {
                policy::check_resource(&self.options, &self.engine, &resource)?;
                self.refuse_managed(&resource)?;
                resources.push(resource);
            }
        }
        if !conflicts.is_empty() {
            return Err(report::conflict_error(conflicts));
        }
        let outcome = self.apply(&resources, cancel)?;
        if self.change_guard.is_some() {
            let failed = |resource: &&Resource| {
                outcome.events.iter().any(|event| {
                    event.resource == resource.reference()
                        && event.status == ChangeEventStatus::Failure
                })
            };
            let applied = resources.iter().filter(|resource| !failed(resource));
            unrestored
                .extend(applied.flat_map(|resource| remaining_differences(&self.engine, resource)));
        }
        Ok(ChangeOutcome { outcome, unrestored })
    }

    fn is_managed(&self, resource: &Resource) -> Result<bool, ActionError> {
        if self.options.allow_managed {
            return Ok(false);
        }
        let managed = managed::look_up_managed(&*self.system, &self.options, resource);
        Ok(managed? == ManagedStatus::Yes)
    }

    fn refuse_managed(&self, resource: &Resource) -> Result<(), ActionError> {
        if !self.is_managed(resource)? {
            return Ok(());
        }
        let message = format!(
            "{} is managed by Puppet, which would revert the change; change the manifest instead",
            resource.reference()
        );
        Err(ActionError::denied_by_rule(message, "plugins.puppetral.allow_managed"))
    }
}

/// Applies the node's policy to generated resources, and keeps the undo record of the request.
struct ChangeHooks<'a> {
    task: &'a ChangeTask,
    state: Option<StateDir>,
    record: Option<UndoRecord>,
}

impl ChangeHooks<'_> {
    fn save(&self, record: &UndoRecord) -> Result<(), UndoError> {
        let state = self.state.as_ref();
        state.map_or(Ok(()), |state| record.save(state, &self.task.request))
    }

    /// Refuses the id of an earlier request, whose record would be lost.
    fn refuse_known_id(&self) -> Result<(), UndoError> {
        let (state, id) = (self.state.as_ref(), &self.task.request);
        match state.map(|state| UndoRecord::exists(state, id)).transpose()? {
            Some(true) => Err(UndoError::Exists { id: id.clone() }),
            _ => Ok(()),
        }
    }

    /// Adds to the record what the changes left.
    fn save_result(&mut self) -> Result<(), UndoError> {
        let Some(mut record) = self.record.take() else { return Ok(()) };
        record.record_result(&self.task.engine);
        self.save(&record)
    }
}

impl ApplyHooks for ChangeHooks<'_> {
    /// A resource that Puppet manages is left alone, as a resource of the catalog is in a run. One that the caller may not change refuses the
    /// request: a `tidy` must not remove what a `file` may not.
    fn admit_generated(&mut self, resource: &Resource) -> Result<bool, EngineError> {
        let task = self.task;
        let check = policy::check_type(&task.options, &resource.type_name)
            .and_then(|()| policy::check_resource(&task.options, &task.engine, resource))
            .and_then(|()| task.is_managed(resource));
        check.map(|is_managed| !is_managed).map_err(|error| {
            EngineError::failed(resource, format!("nothing was changed: {}", error.message))
        })
    }

    /// Saves the undo record before the changes; if that fails, nothing is changed.
    fn before_changes(&mut self, plans: &[&ResourcePlan]) -> Result<(), EngineError> {
        if self.state.is_none() {
            return Ok(());
        }
        let record = UndoRecord::from_plans(&self.task.engine, plans);
        let saved = self.refuse_known_id().and_then(|()| self.save(&record));
        if saved.is_ok() {
            self.record = Some(record);
        }
        match (saved, plans.first()) {
            (Err(error), Some(plan)) => {
                let problem = format!("nothing was changed: {}", error_chain(&error));
                Err(EngineError::failed(&plan.resource, problem))
            }
            _ => Ok(()),
        }
    }
}

/// Opens the directory of the undo records, if configured.
fn open_undo_state(options: &Options) -> Result<Option<StateDir>, ActionError> {
    Ok(options.state_dir.as_deref().map(StateDir::open).transpose()?)
}
