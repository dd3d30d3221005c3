//! Runs the engine for one call: reads the catalog, takes the locks, streams events and builds the reply.

use std::sync::Arc;
use std::time::Duration;

use muster_api::base::error_chain;
use muster_api::system::command::CancelFlag;
use muster_api::system::{StateDir, System};
use muster_api::{ActionError, BlockingContext, CallContext, NodeHandle};
use muster_contract::catalog::{CatalogRunEvent, CatalogRunOutcome};
use muster_engine::ResourceEngine;
use muster_engine::catalog::{self, Catalog};
use muster_engine::lock::{CatalogRunLock, LockError, puppet_state_dirs};
use muster_engine::report::{ResourceEvent, RunEvent, RunReport};
use muster_engine::run::{self, CatalogRunError, RunOptions, run_files};
use muster_engine::type_source::machine_type_sources;
use muster_puppet::EngineRunRecorder;
use muster_wire::history::{OWN_ENGINE, RunCause};
use serde_json::json;
use uuid::Uuid;

use crate::catalog::options::Options;

/// Maximum number of events in one reply; the report on the node contains all of them.
const MAX_LISTED_EVENTS: usize = 1000;
/// Suggested retry delay in a `busy` reply.
const RETRY_AFTER: Duration = Duration::from_secs(30);

/// Source of the catalog.
#[derive(Debug)]
pub(crate) enum CatalogSource {
    /// Text sent by the caller.
    Given(String),
    /// A file on the node.
    File(String),
    /// The catalog of the last run that began.
    Stored,
}

/// The outcome of a run and a later one, with the totals of both and the id of the later one.
pub(crate) fn add_outcome(
    earlier: CatalogRunOutcome,
    later: CatalogRunOutcome,
) -> CatalogRunOutcome {
    let is_changed = [&earlier, &later].iter().any(|outcome| outcome.status == "changed");
    let mut events = earlier.events;
    events.extend(later.events);
    events.truncate(MAX_LISTED_EVENTS);
    CatalogRunOutcome {
        status: if is_changed { "changed".to_owned() } else { later.status },
        exit_code: earlier.exit_code | later.exit_code,
        changed: earlier.changed + later.changed,
        failed: earlier.failed + later.failed,
        events,
        ..later
    }
}

/// The machine on which a catalog is applied.
#[derive(Debug, Clone)]
pub(crate) struct RunMachine {
    pub(crate) system: Arc<dyn System>,
    pub(crate) node: Arc<dyn NodeHandle>,
    pub(crate) cancel: CancelFlag,
    /// Why the catalog is applied.
    pub(crate) cause: RunCause,
}

impl RunMachine {
    pub(crate) fn of_call(cx: &BlockingContext) -> Self {
        let (system, cancel) = (Arc::clone(&cx.system), cx.cancel_flag.clone());
        Self { system, node: Arc::clone(&cx.node), cancel, cause: cause_of_call(cx) }
    }
}

/// The cause of a run that a request began.
pub(crate) fn cause_of_call(cx: &CallContext) -> RunCause {
    RunCause {
        engine: OWN_ENGINE.to_owned(),
        request: Some(cx.request),
        caller: Some(cx.caller.to_string()),
        ..RunCause::default()
    }
}

/// What a run may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunMode {
    Apply,
    /// Changes nothing; runs the commands that find out whether something is to be done.
    Noop,
    /// Changes nothing and runs no command.
    Plan,
}

/// Applies a catalog and returns the reply. Sends each event as it happens if the caller asked for progress.
pub(crate) fn apply_catalog(
    cx: &BlockingContext,
    settings: &Options,
    source: CatalogSource,
    run_options: RunOptions,
) -> Result<CatalogRunOutcome, ActionError> {
    let bytes = read_catalog(cx, settings, source)?;
    let mode = if run_options.noop { RunMode::Plan } else { RunMode::Apply };
    let machine = RunMachine::of_call(cx);
    let report = run_engine(&machine, settings, &bytes, mode, run_options, &mut |event| {
        report_event(cx, event);
    })?;
    let outcome = read_outcome(&report);
    match describe_failure(&report, &outcome) {
        None => Ok(outcome),
        Some(failure) => Err(ActionError::failed(failure).with_output(&outcome)),
    }
}

/// Sends the message of an event to a caller that asked for progress.
pub(crate) fn report_event(cx: &CallContext, event: &RunEvent) {
    if let RunEvent::Log(log) = event {
        cx.emit_event(json!({"message": format!("{}: {}", log.source, log.message)}));
    }
}

/// Applies a catalog with the node's locks and ledger.
pub(crate) fn run_engine(
    machine: &RunMachine,
    settings: &Options,
    bytes: &[u8],
    mode: RunMode,
    run_options: RunOptions,
    on_event: &mut dyn FnMut(&RunEvent),
) -> Result<RunReport, ActionError> {
    let RunMachine { system, node, cancel, cause } = machine;
    let state = open_state_dir(settings)?;
    let catalog = Catalog::parse(bytes, node.identity().as_str())
        .map_err(|error| invalid_catalog_error(&error))?;
    let engine =
        ResourceEngine::new(Arc::clone(system)).with_type_source(machine_type_sources(system));
    let engine = if mode == RunMode::Plan { engine.to_read_only() } else { engine };
    let puppets = settings.puppet_state.clone();
    let puppets = puppets.unwrap_or_else(|| puppet_state_dirs(system.root()));
    let lock_timeout = Duration::from_secs(settings.lock_wait);
    let _run_lock = CatalogRunLock::acquire(&state, &puppets, lock_timeout)
        .map_err(|error| lock_action_error(&error))?;
    let run = Uuid::now_v7();
    let run_options = RunOptions {
        noop: mode != RunMode::Apply,
        run_id: run.to_string(),
        cancel: cancel.clone(),
        ..run_options
    };
    let mut recorder = EngineRunRecorder::new(node.history(), run, cause.clone());
    let ended =
        run::apply_stored_catalog(&engine, &catalog, bytes, &state, &run_options, &mut |event| {
            // A plan is a question, and no run.
            if mode != RunMode::Plan {
                recorder.observe(event);
            }
            on_event(event);
        });
    recorder.finish(ended.as_ref());
    ended.map_err(|error| match error {
        CatalogRunError::Catalog(error) => invalid_catalog_error(&error),
        CatalogRunError::State(error) => ActionError::from_cause(error),
    })
}

pub(crate) fn open_state_dir(options: &Options) -> Result<StateDir, ActionError> {
    Ok(StateDir::open(&options.state_dir)?)
}

/// Reads the bytes of the catalog.
pub(crate) fn read_catalog(
    cx: &BlockingContext,
    options: &Options,
    source: CatalogSource,
) -> Result<Vec<u8>, ActionError> {
    match source {
        CatalogSource::Given(text) => Ok(text.into_bytes()),
        CatalogSource::File(path) => {
            Ok(cx.system.read_file(path.as_ref(), catalog::MAX_CATALOG_BYTES)?)
        }
        CatalogSource::Stored => open_state_dir(options)?
            .read_file(run_files::CATALOG_FILE, catalog::MAX_CATALOG_BYTES)?
            .ok_or_else(|| {
                ActionError::failed(
                    "this node has no catalog of an earlier run; `puppet apply` with a manifest leaves none",
                )
            }),
    }
}

pub(crate) fn invalid_catalog_error(error: &catalog::CatalogError) -> ActionError {
    ActionError::invalid_input(format!("invalid catalog: {}", error_chain(error)))
}

fn lock_action_error(error: &LockError) -> ActionError {
    let message = error_chain(error);
    match error {
        LockError::Running { .. } | LockError::Puppet { .. } => {
            ActionError::busy(message, RETRY_AFTER)
        }
        LockError::Disabled { .. } | LockError::System(_) => ActionError::failed(message),
    }
}

pub(crate) fn read_outcome(report: &RunReport) -> CatalogRunOutcome {
    let statuses = &report.resource_statuses;
    let count = |has_status: fn(&muster_engine::report::ResourceStatus) -> bool| {
        statuses.iter().filter(|status| has_status(status)).count()
    };
    let all = statuses.iter().flat_map(|status| {
        let to_event = |event: &ResourceEvent| CatalogRunEvent {
            resource: status.resource.clone(),
            property: event.property.clone(),
            status: event.status.to_owned(),
            message: event.message.clone(),
        };
        status.events.iter().map(to_event)
    });
    CatalogRunOutcome {
        status: report.status.to_owned(),
        exit_code: report.exit_code(),
        resources: statuses.len(),
        changed: count(|status| status.changed),
        failed: count(|status| status.failed || status.failed_to_restart),
        skipped: count(|status| status.skipped),
        pending: report.pending_refreshes.len(),
        events: all.take(MAX_LISTED_EVENTS).collect(),
        run: report.transaction_uuid.clone(),
    }
}

/// Why a run failed; `None` if it did not.
pub(crate) fn describe_failure(report: &RunReport, outcome: &CatalogRunOutcome) -> Option<String> {
    if report.status != "failed" {
        return None;
    }
    let failed = report.resource_statuses.iter();
    let names: Vec<&str> = failed
        .filter(|status| status.failed || status.failed_to_restart)
        .map(|status| status.resource.as_str())
        .take(5)
        .collect();
    let more = outcome.failed.saturating_sub(names.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Some(format!("the run failed: {}{more}", names.join(", ")))
}
