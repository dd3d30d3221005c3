//! What other plugins may do with runs: see whether one goes on, begin one, and read how one ended.
//!
//! A run that another plugin begins passes the same stages as one of the action `runonce`, with the default pool and limit of the configuration.

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use muster_api::system::{System, SystemError, SystemResult};
use muster_api::wire::history::RunCause;
use muster_contract::puppet::{PuppetResourceEvent, PuppetRunOutcome};
use muster_engine::lock;
use muster_files::FileStamp;
use tokio::task::{JoinError, spawn_blocking};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::arguments::PuppetRunOptions;
use crate::files::last_run::read_last_run;
use crate::files::report::{MAX_REPORT_BYTES, PuppetRunReport, SKIPPED_REFRESH};
use crate::options::RunCatalog;
use crate::paths::PuppetPaths;
use crate::permit::{OptionalPermit, PermitParameters};
use crate::permits::PermitError;
use crate::runs::{BeginRunResult, PuppetRunManager, PuppetRunRequest, RunWaiter};

/// How many of the last runs are searched for a transaction.
const MAX_SEARCHED_RUNS: usize = 5;

/// Begins runs and observes them. Clones share the runs.
#[derive(Debug, Clone)]
pub struct PuppetRunHandle(pub(crate) Arc<PuppetRunManager>);

/// What applies a catalog now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunActivity {
    /// The id of a run of the agent `puppet` that is in progress.
    pub run: Option<Uuid>,
    /// The process that holds Puppet's lock, if it is none of the agent's runs.
    pub process: Option<u32>,
}

impl RunActivity {
    /// Whether no catalog is applied.
    pub fn is_idle(&self) -> bool {
        self.run.is_none() && self.process.is_none()
    }
}

#[derive(Debug, Clone)]
pub struct RunStart {
    /// A second start with the same id is the same run.
    pub id: Uuid,
    /// What asks for it, for its record.
    pub request: Uuid,
    /// Who asks for it, for its record.
    pub caller: String,
    /// Why it runs, for the fleet's history.
    pub cause: RunCause,
    /// The node's name.
    pub host: String,
}

/// Why a run could not begin, or its end not be read.
#[derive(Debug, thiserror::Error)]
pub enum RunStartError {
    /// Its record could not be written.
    #[error("cannot record the run")]
    Record(#[from] SystemError),
    /// A defect.
    #[error("the run ended unexpectedly")]
    Panicked(#[from] JoinError),
}

/// A run that has ended.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EndedRun {
    /// How.
    pub outcome: PuppetRunOutcome,
    /// What Puppet's report says of it, at most 500 events; empty without a report.
    pub events: Vec<PuppetResourceEvent>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReportedRun {
    /// The `transaction_uuid`.
    pub transaction: Option<String>,
    /// Whether the run changed nothing, by option or configuration.
    pub noop: bool,
    /// `changed`, `unchanged` or `failed`.
    pub status: String,
    /// Resource, property and new value of each change and of each failure.
    pub events: BTreeSet<(String, String, String)>,
}

/// Refreshes that Puppet's last run skipped, because it or the resource runs without effect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkippedRefreshes {
    /// The `transaction_uuid` of the run.
    pub transaction: Option<String>,
    /// The resources, as Puppet's log names them: `/Stage[main]/Main/Exec[again]`.
    pub targets: Vec<String>,
}

impl PuppetRunHandle {
    /// Returns when the runs of an earlier daemon are resumed. A run that is begun before that may be taken for one of them.
    pub async fn until_resumed(&self) {
        self.0.resumed.cancelled().await;
    }

    /// What applies a catalog now. Blocks.
    pub fn activity(&self, system: &dyn System) -> RunActivity {
        let current = self.0.current_outcome().filter(|outcome| outcome.state.is_running());
        let run = current.and_then(|outcome| Uuid::try_parse(&outcome.run).ok());
        if run.is_some() {
            return RunActivity { run, process: None };
        }
        let own = std::process::id();
        RunActivity { run: None, process: self.foreign_process(system).filter(|pid| *pid != own) }
    }

    fn foreign_process(&self, system: &dyn System) -> Option<u32> {
        let paths = PuppetPaths::find(&self.0.options, system).ok()?;
        lock::applying_process(&[system.host_path(&paths.state_dir())])
    }

    /// Begins a run, which continues without a waiter. Its record is on disk when this returns. Blocks.
    pub fn begin_run(&self, start: RunStart, system: &Arc<dyn System>) -> SystemResult<()> {
        self.0.begin_run(self.run_request(start, None, None), system).map(drop)
    }

    /// Applies a catalog with Puppet, whatever `engine` and `application` of the options are. A cancelled run ends as one of `runonce` does; one whose
    /// future is dropped goes on, if its program has started.
    pub async fn apply_catalog(
        &self,
        start: RunStart,
        catalog: RunCatalog,
        noop: bool,
        system: &Arc<dyn System>,
        cancel: &CancellationToken,
    ) -> Result<EndedRun, RunStartError> {
        let request = self.run_request(start, Some(catalog), Some(noop));
        let (runs, on) = (Arc::clone(&self.0), Arc::clone(system));
        let outcome = match spawn_blocking(move || runs.begin_run(request, &on)).await?? {
            BeginRunResult::Finished(outcome) => *outcome,
            BeginRunResult::Active(waiter, _) => wait_for_end(&waiter, cancel).await,
        };
        let (runs, on) = (self.clone(), Arc::clone(system));
        let transaction = outcome.transaction_uuid.clone();
        let events = spawn_blocking(move || {
            let report = PuppetRunReport::parse(&runs.read_report_text(&*on)?)?;
            let is_its =
                transaction.is_some() && report.text_field("transaction_uuid") == transaction;
            is_its.then(|| report.resource_events())
        });
        Ok(EndedRun { outcome, events: events.await?.unwrap_or_default() })
    }

    /// Waits for a place in the pool of the options, for a run that is none of this agent. With a limit in the options the run needs it; without one it goes on
    /// without a place where none can be stored.
    pub async fn acquire_permit(
        &self,
        run: Uuid,
        cancel: &CancellationToken,
    ) -> Result<RunPermit, PermitError> {
        let (permits, parameters) = (&self.0.permits, self.permit_parameters());
        OptionalPermit::acquire_permit(permits, &parameters, run, cancel).await.map(RunPermit)
    }

    fn permit_parameters(&self) -> PermitParameters {
        let options = &self.0.options;
        PermitParameters {
            pool: self.0.pool.clone(),
            limit: NonZeroU32::new(options.limit),
            priority: 0,
            rollout: None,
            timeout: Duration::from_secs(options.wait),
        }
    }

    fn run_request(
        &self,
        start: RunStart,
        catalog: Option<RunCatalog>,
        noop: Option<bool>,
    ) -> PuppetRunRequest {
        let splay = Some(false);
        PuppetRunRequest {
            id: start.id,
            request: start.request,
            caller: start.caller,
            cause: start.cause,
            trace: None,
            host: start.host,
            run_options: PuppetRunOptions { noop, splay, ..PuppetRunOptions::default() },
            catalog,
            permit_parameters: self.permit_parameters(),
            in_background: true,
        }
    }

    /// The outcome of the run with this id, so far; `None` if there is no such run. Blocks.
    pub fn find_outcome(&self, id: Uuid) -> Option<PuppetRunOutcome> {
        self.0.list_outcomes(Some(id), 1).pop()
    }

    /// The outcome of the newest run with this `transaction_uuid`, among the last ones. Blocks.
    pub fn find_transaction(&self, transaction: &str) -> Option<PuppetRunOutcome> {
        let outcomes = self.0.list_outcomes(None, MAX_SEARCHED_RUNS).into_iter();
        let mut found =
            outcomes.filter(|outcome| outcome.transaction_uuid.as_deref() == Some(transaction));
        found.next()
    }

    /// When Puppet's report was last written. Blocks.
    pub fn report_time(&self, system: &dyn System) -> Option<SystemTime> {
        self.report_metadata(system)?.modified().ok()
    }

    /// The stamp of Puppet's report, which differs after each write; `None` without a report. Blocks.
    pub fn report_stamp(&self, system: &dyn System) -> Option<FileStamp> {
        self.report_metadata(system).as_ref().map(FileStamp::of_metadata)
    }

    /// When the last run ended, by its summary, in milliseconds since 1970. Blocks.
    pub fn last_run_end(&self, system: &dyn System) -> Option<u64> {
        let paths = PuppetPaths::find(&self.0.options, system).ok();
        read_last_run(system, paths.as_ref(), &self.0.engine_dir()).ok()??.ended
    }

    /// Blocks.
    pub fn read_report(&self, system: &dyn System) -> Option<ReportedRun> {
        let report = PuppetRunReport::parse(&self.read_report_text(system)?)?;
        Some(ReportedRun {
            transaction: report.text_field("transaction_uuid"),
            noop: report.flag_field("noop") == Some(true),
            status: report.text_field("status").unwrap_or_default(),
            events: report.changes(),
        })
    }

    /// The refreshes that Puppet's last run skipped; `None` without any. Blocks.
    pub fn read_skipped_refreshes(&self, system: &dyn System) -> Option<SkippedRefreshes> {
        let text = self.read_report_text(system)?;
        // Parsing a report takes much longer than a search in it, and few have such a line.
        let report =
            text.contains(SKIPPED_REFRESH).then(|| PuppetRunReport::parse(&text)).flatten()?;
        let transaction = report.text_field("transaction_uuid");
        Some(SkippedRefreshes { transaction, targets: report.skipped_refreshes() })
    }

    fn report_metadata(&self, system: &dyn System) -> Option<Metadata> {
        let paths = PuppetPaths::find(&self.0.options, system).ok()?;
        paths.report_metadata(system)
    }

    fn read_report_text(&self, system: &dyn System) -> Option<String> {
        let paths = PuppetPaths::find(&self.0.options, system).ok()?;
        let file = system.read_file(&paths.report_path(), MAX_REPORT_BYTES).ok()?;
        Some(String::from_utf8_lossy(&file).into_owned())
    }
}

/// A place in a pool of runs. Dropping it without [`Self::release`] leaves it to the end of its lease.
#[derive(Debug)]
pub struct RunPermit(OptionalPermit);

impl RunPermit {
    /// Returns when another run may have the place; the run must end then.
    pub async fn until_lost(&self) {
        self.0.until_lost().await;
    }

    /// Gives the place to the next run.
    pub async fn release(self) {
        self.0.release().await;
    }
}

async fn wait_for_end(waiter: &RunWaiter, cancel: &CancellationToken) -> PuppetRunOutcome {
    let mut updates = waiter.active_run().outcome.subscribe();
    let mut is_cancelled = false;
    loop {
        let outcome = updates.borrow_and_update().clone();
        if outcome.state.is_over() {
            return outcome;
        }
        tokio::select! {
            // The sender lives as long as the waiter.
            _ = updates.changed() => {}
            () = cancel.cancelled(), if !is_cancelled => {
                is_cancelled = true;
                waiter.cancel_run();
            }
        }
    }
}
