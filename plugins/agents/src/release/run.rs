//! Applies one catalog of a release, with the engine or with the machine's Puppet.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use muster_api::system::StateDir;
use muster_api::system::command::CancelFlag;
use muster_contract::catalog::{CatalogRunEvent, CatalogRunOutcome};
use muster_contract::puppet::PuppetResourceEvent;
use muster_engine::report::RunEvent;
use muster_engine::run::RunOptions;
use muster_puppet::{CatalogEngine, EndedRun, PuppetRunHandle, RunCatalog, RunStart};
use muster_wire::catalog::CatalogAddress;
use muster_wire::catalog::content::ContentAddress;
use muster_wire::catalog::plugins::PluginList;
use muster_wire::catalog::release::Release;
use muster_wire::history::{OWN_ENGINE, RunCause};
use serde_json::{Map, Value};
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::error::ReleaseError;
use super::held;
use super::parts::{FollowerParts, ReleaseMachine};
use super::puppet_copy::{self, PuppetCopy};
use crate::catalog::runs::{self, RunMachine, RunMode};

/// Subdirectory with the files that Puppet reads: a directory for each run, because a run of an earlier daemon may go on.
const PUPPET_DIRECTORY: &str = "puppet";
const CATALOG_FILE: &str = "catalog.json";

/// Receives the events of a run of the engine.
pub(super) type EventSink = Box<dyn FnMut(&RunEvent) + Send>;

/// A run of a catalog, as it is reported.
#[derive(Debug)]
pub(super) struct ReleaseRun {
    pub(super) release: Release,
    pub(super) catalog: CatalogAddress,
    pub(super) noop: bool,
    pub(super) outcome: CatalogRunOutcome,
    /// Why it failed.
    pub(super) failure: Option<String>,
}

impl ReleaseRun {
    /// The resources that were changed, or would have been.
    pub(super) fn changes(&self) -> u64 {
        let changed = if self.noop {
            let events = self.outcome.events.iter().filter(|event| event.status == "noop");
            events.map(|event| &event.resource).collect::<BTreeSet<_>>().len()
        } else {
            self.outcome.changed
        };
        u64::try_from(changed).unwrap_or(u64::MAX)
    }
}

/// One catalog for one run.
pub(super) struct ReleasedCatalog<'a> {
    pub(super) parts: &'a FollowerParts,
    pub(super) machine: &'a ReleaseMachine,
    pub(super) release: &'a Release,
    /// Where its files are.
    pub(super) contents: PathBuf,
    /// The list of the plugins that Puppet needs.
    pub(super) plugins: Option<ContentAddress>,
    pub(super) address: CatalogAddress,
    /// With its secrets.
    pub(super) catalog: Map<String, Value>,
}

impl ReleasedCatalog<'_> {
    /// Applies it. The second value says why the run failed.
    pub(super) async fn apply(
        self,
        mode: RunMode,
        cancel: &CancellationToken,
        sink: EventSink,
    ) -> Result<(CatalogRunOutcome, Option<String>), ReleaseError> {
        match self.parts.options.engine {
            CatalogEngine::Native => self.apply_with_engine(mode, cancel, sink).await,
            CatalogEngine::Puppet => self.apply_with_puppet(mode, cancel).await,
        }
    }

    async fn apply_with_engine(
        self,
        mode: RunMode,
        cancel: &CancellationToken,
        mut sink: EventSink,
    ) -> Result<(CatalogRunOutcome, Option<String>), ReleaseError> {
        // A plan works as little as a query.
        let permit = match mode {
            RunMode::Plan => None,
            RunMode::Apply | RunMode::Noop => {
                Some(self.parts.puppet.acquire_permit(Uuid::now_v7(), cancel).await?)
            }
        };
        let flag = CancelFlag::default();
        let (set, cancelled) = (flag.clone(), cancel.clone());
        // Ends with the caller, who cancels at the latest when the run is over.
        tokio::spawn(async move {
            cancelled.cancelled().await;
            set.cancel();
        });
        let cause = RunCause { engine: OWN_ENGINE.to_owned(), ..self.run_cause() };
        let text = Value::Object(self.catalog).to_string();
        let ReleaseMachine { system, node, .. } = self.machine.clone();
        let machine = RunMachine { system, node, cancel: flag.clone(), cause };
        let engine = Arc::clone(&self.parts.engine);
        let mut run = spawn_blocking(move || {
            let (bytes, options) = (text.as_bytes(), RunOptions::default());
            runs::run_engine(&machine, &engine, bytes, mode, options, &mut |event| sink(event))
        });
        let lost = async {
            match &permit {
                Some(permit) => permit.until_lost().await,
                None => std::future::pending().await,
            }
        };
        let (ended, is_fenced) = tokio::select! {
            ended = &mut run => (ended, false),
            () = lost => {
                flag.cancel();
                (run.await, true)
            }
        };
        if let Some(permit) = permit {
            permit.release().await;
        }
        let report = ended.map_err(ReleaseError::panicked)?.map_err(ReleaseError::Run)?;
        if is_fenced {
            return Err(ReleaseError::Fenced);
        }
        let outcome = runs::read_outcome(&report);
        let failure = runs::describe_failure(&report, &outcome);
        Ok((outcome, failure))
    }

    /// Why the catalog is applied, for the fleet's history.
    fn run_cause(&self) -> RunCause {
        RunCause {
            release: Some(self.release.name.to_string()),
            catalog: Some(self.address.to_string()),
            ..self.machine.cause.clone()
        }
    }

    /// Puppet has no run that executes nothing: a plan is a run with `--noop`, which executes the commands of `onlyif` and `unless`.
    async fn apply_with_puppet(
        self,
        mode: RunMode,
        cancel: &CancellationToken,
    ) -> Result<(CatalogRunOutcome, Option<String>), ReleaseError> {
        let id = Uuid::now_v7();
        let start = RunStart {
            id,
            request: id,
            caller: format!("release: {}", self.release.name),
            cause: self.run_cause(),
            host: self.machine.node.identity().to_string(),
        };
        let all = self.parts.state.join(PUPPET_DIRECTORY);
        let directory = all.join(id.to_string());
        let (puppet, written_to) = (self.parts.puppet.clone(), directory.clone());
        let (contents, plugins, catalog) = (self.contents, self.plugins, self.catalog);
        let written = spawn_blocking(move || {
            remove_ended(&all, &puppet);
            write_copy(catalog, plugins, &contents, &written_to)
        });
        let catalog = written.await.map_err(ReleaseError::panicked)??;
        let (system, noop) = (&self.machine.system, mode != RunMode::Apply);
        let ended = self.parts.puppet.apply_catalog(start, catalog, noop, system, cancel).await?;
        // One that cannot be removed now is removed before a later run.
        let _ = tokio::fs::remove_dir_all(&directory).await;
        Ok(read_puppet_outcome(ended))
    }
}

/// Removes the directories of runs that have ended, such as those that another daemon began.
fn remove_ended(all: &Path, puppet: &PuppetRunHandle) {
    for entry in fs::read_dir(all).into_iter().flatten().flatten() {
        let id = entry.file_name().to_str().and_then(|name| Uuid::try_parse(name).ok());
        let outcome = id.and_then(|id| puppet.find_outcome(id));
        // Without a record, the run may be about to begin.
        if outcome.is_some_and(|outcome| outcome.state.is_over()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Writes what Puppet reads: the catalog, the trees of its sources, and the plugins.
fn write_copy(
    catalog: Map<String, Value>,
    plugins: Option<ContentAddress>,
    contents: &Path,
    directory: &Path,
) -> Result<RunCatalog, ReleaseError> {
    let copy = PuppetCopy::of(catalog, contents, &directory.join("trees"))?;
    let state = StateDir::recreate(directory)?;
    copy.write_links(contents).map_err(ReleaseError::Links)?;
    state.replace_record(CATALOG_FILE, &copy.catalog)?;
    let root = directory.join("plugins");
    let list = plugins.map(|list| held::read_plugins(contents, list)).transpose()?;
    for (path, file) in list.iter().flat_map(PluginList::files) {
        puppet_copy::link_file(contents, file, &root.join(path)).map_err(ReleaseError::Links)?;
    }
    let libdir = list.is_some().then(|| root.join("lib"));
    Ok(RunCatalog { file: directory.join(CATALOG_FILE), libdir })
}

fn read_puppet_outcome(ended: EndedRun) -> (CatalogRunOutcome, Option<String>) {
    let EndedRun { outcome: run, events } = ended;
    let count = |value: Option<u64>| value.and_then(|value| usize::try_from(value).ok());
    let changed = count(run.changed).unwrap_or_default();
    let failed = [run.failed, run.failed_to_restart].map(|value| count(value).unwrap_or_default());
    let failed: usize = failed.iter().sum();
    let has_failed = !run.is_success();
    let is_changed = changed > 0 && run.noop != Some(true);
    let status = match (has_failed, is_changed) {
        (true, _) => "failed",
        (false, true) => "changed",
        (false, false) => "unchanged",
    };
    let failure = has_failed.then(|| {
        let text = run.error.clone().or_else(|| run.summary.clone());
        text.unwrap_or_else(|| "the run failed".to_owned())
    });
    let outcome = CatalogRunOutcome {
        status: status.to_owned(),
        exit_code: (u8::from(has_failed) << 2) | (u8::from(is_changed) << 1),
        resources: count(run.total).unwrap_or_default(),
        changed,
        failed,
        skipped: count(run.skipped).unwrap_or_default(),
        pending: run.pending.len(),
        events: events.into_iter().map(to_event).collect(),
        run: run.transaction_uuid.unwrap_or(run.run),
    };
    (outcome, failure)
}

fn to_event(event: PuppetResourceEvent) -> CatalogRunEvent {
    let PuppetResourceEvent { resource, property, status, message } = event;
    CatalogRunEvent { resource, property, status, message }
}
