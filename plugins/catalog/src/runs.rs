//! Runs the engine for one call: reads the catalog, takes the locks, streams events and builds the reply.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use muster_api::base::error_chain;
use muster_api::system::command::CancelFlag;
use muster_api::system::{StateDir, System};
use muster_api::wire::status::{ReplyReason, ReplyStatus};
use muster_api::{ActionError, CallContext};
use muster_engine::ResourceEngine;
use muster_engine::catalog::{self, Catalog};
use muster_engine::lock::{CatalogRunLock, LockError, puppet_state_dirs};
use muster_engine::report::{ResourceEvent, RunEvent, RunReport};
use muster_engine::run::{self, CatalogRunError, RunOptions, run_files};
use muster_engine::type_source::machine_type_sources;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::options::Options;

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
    /// The catalog that was applied last.
    Stored,
}

/// Options of one run.
#[derive(Debug, Default)]
pub(crate) struct CatalogRunOptions {
    /// Plan only: the engine reads state and executes no command of the catalog.
    pub(crate) noop: bool,
    pub(crate) tags: Vec<String>,
    pub(crate) skip_tags: Vec<String>,
    /// Restricts the run to these resources; all when empty.
    pub(crate) only: BTreeSet<String>,
}

/// The answer.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct CatalogRunOutcome {
    pub(crate) status: String,
    pub(crate) exit_code: u8,
    pub(crate) resources: usize,
    pub(crate) changed: usize,
    pub(crate) failed: usize,
    pub(crate) skipped: usize,
    pub(crate) pending: usize,
    pub(crate) events: Vec<CatalogRunEvent>,
    pub(crate) run: String,
}

/// One event of it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct CatalogRunEvent {
    resource: String,
    property: Option<String>,
    status: String,
    message: String,
}

impl CatalogRunEvent {
    fn new(resource: &str, event: &ResourceEvent) -> Self {
        Self {
            resource: resource.to_owned(),
            property: event.property.clone(),
            status: event.status.to_owned(),
            message: event.message.clone(),
        }
    }
}

/// Applies a catalog and returns the reply. Sends each event as it happens if the caller asked for progress.
pub(crate) async fn apply_catalog(
    cx: &CallContext,
    options: &Arc<Options>,
    source: CatalogSource,
    run_options: CatalogRunOptions,
) -> Result<CatalogRunOutcome, ActionError> {
    let system = Arc::clone(&cx.system);
    let options = Arc::clone(options);
    let host = cx.node.identity().to_string();
    let sink = cx.progress.clone();
    let on_event = move |event: &RunEvent| {
        if let RunEvent::Log(log) = event {
            sink.emit_event(
                serde_json::json!({"message": format!("{}: {}", log.source, log.message)}),
            );
        }
    };
    let task = CatalogRunTask { system, options, host, source, run_options };
    let report = cx.run_blocking(move |cancel| task.run_engine(cancel, on_event)).await??;
    build_outcome(&report)
}

struct CatalogRunTask {
    system: Arc<dyn System>,
    options: Arc<Options>,
    host: String,
    source: CatalogSource,
    run_options: CatalogRunOptions,
}

impl CatalogRunTask {
    fn run_engine(
        self,
        cancel: CancelFlag,
        mut on_event: impl FnMut(&RunEvent),
    ) -> Result<RunReport, ActionError> {
        let state = open_state_dir(&self.options)?;
        let bytes = read_catalog(&*self.system, &state, &self.source)?;
        let catalog =
            Catalog::parse(&bytes, &self.host).map_err(|error| invalid_catalog_error(&error))?;
        let engine = ResourceEngine::new(Arc::clone(&self.system))
            .with_type_source(machine_type_sources(&self.system));
        let engine = if self.run_options.noop { engine.to_read_only() } else { engine };
        let puppets = self.options.puppet_state.clone();
        let puppets = puppets.unwrap_or_else(|| puppet_state_dirs(self.system.root()));
        let lock_timeout = Duration::from_secs(self.options.lock_wait);
        let _run_lock = CatalogRunLock::acquire(&state, &puppets, lock_timeout)
            .map_err(|error| lock_action_error(&error))?;
        let options = RunOptions {
            noop: self.run_options.noop,
            tags: self.run_options.tags,
            skip_tags: self.run_options.skip_tags,
            only: self.run_options.only,
            run_id: uuid::Uuid::now_v7().to_string(),
            cancel,
            ..RunOptions::default()
        };
        let report = run::apply_catalog(&engine, &catalog, &state, &options, &mut on_event);
        let report = report.map_err(|error| match error {
            CatalogRunError::Catalog(error) => invalid_catalog_error(&error),
            CatalogRunError::State(error) => ActionError::failed(error_chain(&error)),
        })?;
        if !options.noop {
            let stored = state.replace_file(run_files::CATALOG_FILE, &bytes);
            stored.map_err(|error| ActionError::failed(error_chain(&error)))?;
        }
        Ok(report)
    }
}

/// Reads and validates the catalog without applying it.
pub(crate) fn parse_catalog(
    system: &dyn System,
    host: &str,
    source: &CatalogSource,
) -> Result<Catalog, ActionError> {
    let bytes = match source {
        CatalogSource::Given(text) => text.clone().into_bytes(),
        CatalogSource::File(path) => read_catalog_file(system, path)?,
        CatalogSource::Stored => Vec::new(),
    };
    Catalog::parse(&bytes, host).map_err(|error| invalid_catalog_error(&error))
}

/// Selects the source from the action's inputs.
pub(crate) fn choose_source(
    catalog: Option<String>,
    file: Option<String>,
) -> Result<CatalogSource, ActionError> {
    match (catalog, file) {
        (Some(text), None) => Ok(CatalogSource::Given(text)),
        (None, Some(path)) => Ok(CatalogSource::File(path)),
        _ => Err(ActionError::invalid_input(
            "specify either `catalog`, its content, or `file`, its path on the node",
        )),
    }
}

/// Splits a comma-separated list.
pub(crate) fn split_words(text: Option<String>) -> Vec<String> {
    let text = text.unwrap_or_default();
    let words = text.split(',').map(str::trim);
    words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

pub(crate) fn open_state_dir(options: &Options) -> Result<StateDir, ActionError> {
    StateDir::open(&options.state_dir).map_err(|error| ActionError::failed(error_chain(&error)))
}

fn read_catalog(
    system: &dyn System,
    state: &StateDir,
    source: &CatalogSource,
) -> Result<Vec<u8>, ActionError> {
    match source {
        CatalogSource::Given(text) => Ok(text.clone().into_bytes()),
        CatalogSource::File(path) => read_catalog_file(system, path),
        CatalogSource::Stored => {
            let stored = state.read_file(run_files::CATALOG_FILE, catalog::MAX_CATALOG_BYTES);
            let stored = stored.map_err(|error| ActionError::failed(error_chain(&error)))?;
            stored
                .ok_or_else(|| ActionError::failed("no catalog has been applied on this node yet"))
        }
    }
}

fn read_catalog_file(system: &dyn System, path: &str) -> Result<Vec<u8>, ActionError> {
    let read = system.read_file(path.as_ref(), catalog::MAX_CATALOG_BYTES);
    read.map_err(|error| ActionError::failed(error_chain(&error)))
}

fn invalid_catalog_error(error: &catalog::CatalogError) -> ActionError {
    ActionError::invalid_input(format!("invalid catalog: {}", error_chain(error)))
}

fn lock_action_error(error: &LockError) -> ActionError {
    let message = error_chain(error);
    match error {
        LockError::Running { .. } | LockError::Puppet { .. } => ActionError {
            status: ReplyStatus::Other,
            message,
            reason: Some(ReplyReason::Busy {
                retry_after_ms: u64::try_from(RETRY_AFTER.as_millis()).unwrap_or(u64::MAX),
            }),
            data: Map::new(),
        },
        LockError::Disabled { .. } | LockError::System(_) => ActionError::failed(message),
    }
}

fn build_outcome(report: &RunReport) -> Result<CatalogRunOutcome, ActionError> {
    let statuses = &report.resource_statuses;
    let count = |has_status: fn(&muster_engine::report::ResourceStatus) -> bool| {
        statuses.iter().filter(|status| has_status(status)).count()
    };
    let all = statuses.iter().flat_map(|status| {
        let to_event = |event| CatalogRunEvent::new(&status.resource, event);
        status.events.iter().map(to_event)
    });
    let outcome = CatalogRunOutcome {
        status: report.status.to_owned(),
        exit_code: report.exit_code(),
        resources: statuses.len(),
        changed: count(|status| status.changed),
        failed: count(|status| status.failed || status.failed_to_restart),
        skipped: count(|status| status.skipped),
        pending: report.pending_refreshes.len(),
        events: all.take(MAX_LISTED_EVENTS).collect(),
        run: report.transaction_uuid.clone(),
    };
    if report.status != "failed" {
        return Ok(outcome);
    }
    let names: Vec<&str> = statuses
        .iter()
        .filter(|status| status.failed || status.failed_to_restart)
        .map(|status| status.resource.as_str())
        .take(5)
        .collect();
    let more = outcome.failed.saturating_sub(names.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let failed = ActionError::failed(format!("the run failed: {}{more}", names.join(", ")));
    match serde_json::to_value(&outcome) {
        Ok(Value::Object(data)) => Err(failed.with_data(data)),
        _ => Err(failed),
    }
}
