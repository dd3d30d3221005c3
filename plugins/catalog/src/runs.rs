//! One run of the engine for a caller: its catalog, its locks, what is told meanwhile, and the answer.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use muster_api::system::command::Cancel;
use muster_api::system::error::chain;
use muster_api::system::{StateDir, System};
use muster_api::wire::status::{Reason, Status};
use muster_api::{ActionError, Context};
use muster_engine::Engine;
use muster_engine::catalog::{self, Catalog};
use muster_engine::foreign::of_machine;
use muster_engine::lock::{LockError, RunLock, puppet_state};
use muster_engine::report::{Event, Report, RunEvent};
use muster_engine::run::{self, RunError, RunOptions, files};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::options::Options;

/// Most events of one answer; the report on the node has them all.
const TOLD: usize = 1000;
/// When asking again is sensible.
const RETRY_AFTER: Duration = Duration::from_secs(30);

/// Where the catalog comes from.
#[derive(Debug)]
pub(crate) enum Source {
    /// The caller sent it.
    Given(String),
    /// It lies on the node.
    File(String),
    /// The one that was applied last.
    Kept,
}

/// How it is to be applied.
#[derive(Debug, Default)]
pub(crate) struct Wish {
    /// Only a plan: the engine reads, and starts nothing that the catalog names.
    pub(crate) noop: bool,
    pub(crate) tags: Vec<String>,
    pub(crate) skip_tags: Vec<String>,
    /// Only these resources; all when empty.
    pub(crate) only: BTreeSet<String>,
}

/// The answer.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct Outcome {
    pub(crate) status: String,
    pub(crate) exit_code: u8,
    pub(crate) resources: usize,
    pub(crate) changed: usize,
    pub(crate) failed: usize,
    pub(crate) skipped: usize,
    pub(crate) pending: usize,
    pub(crate) events: Vec<Told>,
    pub(crate) run: String,
}

/// One event of it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct Told {
    resource: String,
    property: Option<String>,
    status: String,
    message: String,
}

impl Told {
    fn new(resource: &str, event: &Event) -> Self {
        Self {
            resource: resource.to_owned(),
            property: event.property.clone(),
            status: event.status.to_owned(),
            message: event.message.clone(),
        }
    }
}

/// Applies a catalog and answers. Each event is told as it happens to a caller who wants to hear it.
pub(crate) async fn apply(
    cx: &Context,
    options: &Arc<Options>,
    source: Source,
    wish: Wish,
) -> Result<Outcome, ActionError> {
    let system = Arc::clone(&cx.system);
    let options = Arc::clone(options);
    let host = cx.node.identity().to_string();
    let sink = cx.progress.clone();
    let tell = move |event: &RunEvent| {
        if let RunEvent::Log(log) = event {
            sink.emit(serde_json::json!({"message": format!("{}: {}", log.source, log.message)}));
        }
    };
    let work = Work {
        system,
        options,
        host,
        source,
        wish,
    };
    let report = cx.blocking(move |cancel| work.run(cancel, tell)).await??;
    answer(&report)
}

struct Work {
    system: Arc<dyn System>,
    options: Arc<Options>,
    host: String,
    source: Source,
    wish: Wish,
}

impl Work {
    fn run(self, cancel: Cancel, mut tell: impl FnMut(&RunEvent)) -> Result<Report, ActionError> {
        let state = open(&self.options)?;
        let bytes = read(&*self.system, &state, &self.source)?;
        let catalog = Catalog::parse(&bytes, &self.host).map_err(|error| invalid(&error))?;
        let engine = Engine::new(Arc::clone(&self.system)).with_foreign(of_machine(&self.system));
        let engine = if self.wish.noop {
            engine.read_only()
        } else {
            engine
        };
        let puppets = self.options.puppet_state.clone();
        let puppets = puppets.unwrap_or_else(|| puppet_state(self.system.root()));
        let patience = Duration::from_secs(self.options.lock_wait);
        let _until_the_end =
            RunLock::take(&state, &puppets, patience).map_err(|error| locked(&error))?;
        let options = RunOptions {
            noop: self.wish.noop,
            tags: self.wish.tags,
            skip_tags: self.wish.skip_tags,
            only: self.wish.only,
            run_id: uuid::Uuid::now_v7().to_string(),
            cancel,
            ..RunOptions::default()
        };
        let report = run::apply(&engine, &catalog, &state, &options, &mut tell);
        let report = report.map_err(|error| match error {
            RunError::Catalog(error) => invalid(&error),
            RunError::State(error) => ActionError::failed(chain(&error)),
        })?;
        if !options.noop {
            let kept = state.replace(files::CATALOG, &bytes);
            kept.map_err(|error| ActionError::failed(chain(&error)))?;
        }
        Ok(report)
    }
}

/// The catalog that the caller means, judged and not applied.
pub(crate) fn parse(
    system: &dyn System,
    host: &str,
    source: &Source,
) -> Result<Catalog, ActionError> {
    let bytes = match source {
        Source::Given(text) => text.clone().into_bytes(),
        Source::File(path) => read_file(system, path)?,
        Source::Kept => Vec::new(),
    };
    Catalog::parse(&bytes, host).map_err(|error| invalid(&error))
}

/// One of the two, as the action's inputs say it.
pub(crate) fn source(catalog: Option<String>, file: Option<String>) -> Result<Source, ActionError> {
    match (catalog, file) {
        (Some(text), None) => Ok(Source::Given(text)),
        (None, Some(path)) => Ok(Source::File(path)),
        _ => Err(ActionError::invalid(
            "give either `catalog`, the text itself, or `file`, its path on the node",
        )),
    }
}

/// Words between commas.
pub(crate) fn words(text: Option<String>) -> Vec<String> {
    let text = text.unwrap_or_default();
    let words = text.split(',').map(str::trim);
    words
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

pub(crate) fn open(options: &Options) -> Result<StateDir, ActionError> {
    StateDir::open(&options.state_dir).map_err(|error| ActionError::failed(chain(&error)))
}

fn read(system: &dyn System, state: &StateDir, source: &Source) -> Result<Vec<u8>, ActionError> {
    match source {
        Source::Given(text) => Ok(text.clone().into_bytes()),
        Source::File(path) => read_file(system, path),
        Source::Kept => {
            let kept = state.read(files::CATALOG, catalog::LIMIT);
            let kept = kept.map_err(|error| ActionError::failed(chain(&error)))?;
            kept.ok_or_else(|| ActionError::failed("no catalog was applied here yet"))
        }
    }
}

fn read_file(system: &dyn System, path: &str) -> Result<Vec<u8>, ActionError> {
    let read = system.read(path.as_ref(), catalog::LIMIT);
    read.map_err(|error| ActionError::failed(chain(&error)))
}

fn invalid(error: &catalog::CatalogError) -> ActionError {
    ActionError::invalid(format!("the catalog is refused: {}", chain(error)))
}

fn locked(error: &LockError) -> ActionError {
    let message = chain(error);
    match error {
        LockError::Running { .. } | LockError::Puppet { .. } => ActionError {
            status: Status::Other,
            message,
            reason: Some(Reason::Busy {
                retry_after_ms: u64::try_from(RETRY_AFTER.as_millis()).unwrap_or(u64::MAX),
            }),
            data: Map::new(),
        },
        LockError::Disabled { .. } | LockError::System(_) => ActionError::failed(message),
    }
}

fn answer(report: &Report) -> Result<Outcome, ActionError> {
    let statuses = &report.resource_statuses;
    let count = |is: fn(&muster_engine::report::Status) -> bool| {
        statuses.iter().filter(|status| is(status)).count()
    };
    let all = statuses.iter().flat_map(|status| {
        let told = |event| Told::new(&status.resource, event);
        status.events.iter().map(told)
    });
    let outcome = Outcome {
        status: report.status.to_owned(),
        exit_code: report.exit_code(),
        resources: statuses.len(),
        changed: count(|status| status.changed),
        failed: count(|status| status.failed || status.failed_to_restart),
        skipped: count(|status| status.skipped),
        pending: report.pending_refreshes.len(),
        events: all.take(TOLD).collect(),
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
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    let failed = ActionError::failed(format!("the run failed: {}{more}", names.join(", ")));
    match serde_json::to_value(&outcome) {
        Ok(Value::Object(data)) => Err(failed.with_data(data)),
        _ => Err(failed),
    }
}
