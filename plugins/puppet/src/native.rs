//! A run of our own engine in Puppet's place: the catalog of the configuration, with the same locks, ledger and report as
//! `rpcd apply`. Blocks.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use muster_api::system::command::Cancel;
use muster_api::system::error::chain;
use muster_api::system::{StateDir, System, SystemError};
use muster_engine::Engine;
use muster_engine::catalog::{self, Catalog, CatalogError};
use muster_engine::foreign::of_machine;
use muster_engine::lock::{LockError, RunLock};
use muster_engine::report::{Level, Report, Status};
use muster_engine::run::{self, RunError, RunOptions, files};

use crate::arguments::Wish;
use crate::outcome::{Outcome, Reason, State};

/// Why there was no run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NativeError {
    #[error("[plugins.puppet] engine is `native`, and says no `catalog`")]
    NoCatalog,
    #[error(transparent)]
    System(#[from] SystemError),
    #[error("the catalog is refused")]
    Catalog(#[from] CatalogError),
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Takes every lock, for a moment's wait.
pub(crate) fn lock(
    engine: &Path,
    puppet_state: &[std::path::PathBuf],
    patience: Duration,
) -> Result<RunLock, LockError> {
    let state = StateDir::open(engine)?;
    RunLock::take(&state, puppet_state, patience)
}

/// Applies the catalog; the caller holds the lock.
pub(crate) fn apply(
    system: &Arc<dyn System>,
    engine_dir: &Path,
    path: Option<&Path>,
    wish: &Wish,
    (host, run_id): (&str, String),
    cancel: Cancel,
) -> Result<Report, NativeError> {
    let path = path.ok_or(NativeError::NoCatalog)?;
    let bytes = system.read(path, catalog::LIMIT)?;
    let catalog = Catalog::parse(&bytes, host)?;
    let state = StateDir::open(engine_dir)?;
    let engine = Engine::new(Arc::clone(system)).with_foreign(of_machine(system));
    let options = RunOptions {
        noop: wish.noop == Some(true),
        tags: wish.tags.clone(),
        skip_tags: wish.skip_tags.clone(),
        ignore_schedules: wish.ignoreschedules == Some(true),
        run_id,
        cancel,
        ..RunOptions::default()
    };
    let report = run::apply(&engine, &catalog, &state, &options, &mut |_| {})?;
    if !options.noop {
        state.replace(files::CATALOG, &bytes)?;
    }
    Ok(report)
}

/// Puts the result down.
pub(crate) fn judge(outcome: &mut Outcome, result: Result<Report, NativeError>) {
    match result {
        Ok(report) => finish(outcome, &report),
        Err(error @ (NativeError::Catalog(_) | NativeError::Run(RunError::Catalog(_)))) => {
            outcome.state = State::Finished;
            outcome.class = Some("compile_failed".to_owned());
            outcome.error = Some(chain(&error));
        }
        Err(error) => outcome.give_up(Reason::NotStarted, chain(&error)),
    }
}

fn finish(outcome: &mut Outcome, report: &Report) {
    let count = |is: fn(&Status) -> bool| {
        let count = report.resource_statuses.iter().filter(|status| is(status));
        u64::try_from(count.count()).ok()
    };
    outcome.state = State::Finished;
    outcome.transaction_uuid = Some(report.transaction_uuid.clone());
    outcome.exitcode = Some(i32::from(report.exit_code()));
    outcome.total = count(|_| true);
    outcome.changed = count(|status| status.changed);
    outcome.failed = count(|status| status.failed);
    outcome.failed_to_restart = count(|status| status.failed_to_restart);
    outcome.skipped = count(|status| status.skipped);
    outcome.out_of_sync = count(|status| status.out_of_sync);
    outcome.corrective = count(|status| status.corrective_change);
    outcome.config_version = crate::files::summary::text(&report.configuration_version);
    outcome.environment = Some(report.environment.clone());
    outcome.noop = Some(report.noop);
    let loud = report.logs.iter().filter(|log| log.level >= Level::Warning);
    outcome.log = loud
        .map(|log| format!("{}: {}: {}", log.level.word(), log.source, log.message))
        .take(crate::verdict::LOG)
        .collect();
    let is_changed = outcome.changed.unwrap_or_default() > 0;
    let class = match (report.status == "failed", is_changed) {
        (true, true) => "failed+changed",
        (true, false) => "failed",
        (false, true) => "changed",
        (false, false) => "clean",
    };
    outcome.class = Some(class.to_owned());
}
