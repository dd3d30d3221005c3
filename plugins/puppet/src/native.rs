//! Runs the native engine in Puppet's place: applies the configured catalog, with the same locks, ledger and report as `rpcd apply`. Blocks.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use muster_api::base::error_chain;
use muster_api::system::command::CancelFlag;
use muster_api::system::{StateDir, System, SystemError};
use muster_contract::puppet::{PuppetRunClass, PuppetRunOutcome, PuppetRunState};
use muster_engine::ResourceEngine;
use muster_engine::catalog::{self, Catalog, CatalogError};
use muster_engine::lock::{CatalogRunLock, LockError};
use muster_engine::report::{ResourceStatus, RunLogLevel, RunReport};
use muster_engine::run::{self, CatalogRunError, RunOptions};
use muster_engine::type_source::machine_type_sources;

use crate::arguments::PuppetRunOptions;
use crate::history::EngineRunRecorder;

/// Why there was no run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NativeRunError {
    #[error("[plugins.puppet] engine is `native` but `catalog` is not set")]
    NoCatalog,
    #[error(transparent)]
    System(#[from] SystemError),
    #[error("invalid catalog")]
    Catalog(#[from] CatalogError),
    #[error(transparent)]
    Run(#[from] CatalogRunError),
}

pub(crate) fn acquire_locks(
    engine: &Path,
    puppet_state: &[std::path::PathBuf],
    timeout: Duration,
) -> Result<CatalogRunLock, LockError> {
    let state = StateDir::open(engine)?;
    CatalogRunLock::acquire(&state, puppet_state, timeout)
}

/// The caller holds the lock.
pub(crate) fn apply_catalog(
    system: &Arc<dyn System>,
    engine_dir: &Path,
    path: Option<&Path>,
    run_options: &PuppetRunOptions,
    host: &str,
    cancel: CancelFlag,
    mut recorder: EngineRunRecorder,
) -> Result<RunReport, NativeRunError> {
    let path = path.ok_or(NativeRunError::NoCatalog)?;
    system.check_protected(path)?;
    let bytes = system.read_file(path, catalog::MAX_CATALOG_BYTES)?;
    let catalog = Catalog::parse(&bytes, host)?;
    let state = StateDir::open(engine_dir)?;
    let engine =
        ResourceEngine::new(Arc::clone(system)).with_type_source(machine_type_sources(system));
    let options = RunOptions {
        noop: run_options.noop == Some(true),
        tags: run_options.tags.clone(),
        skip_tags: run_options.skip_tags.clone(),
        ignore_schedules: run_options.ignoreschedules == Some(true),
        run_id: recorder.run().to_string(),
        cancel,
        ..RunOptions::default()
    };
    let ended =
        run::apply_stored_catalog(&engine, &catalog, &bytes, &state, &options, &mut |event| {
            recorder.observe(event);
        });
    recorder.finish(ended.as_ref());
    Ok(ended?)
}

pub(crate) fn record_result(
    outcome: &mut PuppetRunOutcome,
    result: Result<RunReport, NativeRunError>,
) {
    match result {
        Ok(report) => record_report(outcome, &report),
        Err(
            error @ (NativeRunError::Catalog(_) | NativeRunError::Run(CatalogRunError::Catalog(_))),
        ) => {
            outcome.state = PuppetRunState::Finished;
            outcome.class = Some(PuppetRunClass::CompileFailed);
            outcome.error = Some(error_chain(&error));
        }
        Err(error) => outcome.end_without_result(PuppetRunClass::NotStarted, error_chain(&error)),
    }
}

fn record_report(outcome: &mut PuppetRunOutcome, report: &RunReport) {
    let count = |predicate: fn(&ResourceStatus) -> bool| {
        let count = report.resource_statuses.iter().filter(|status| predicate(status));
        u64::try_from(count.count()).ok()
    };
    outcome.state = PuppetRunState::Finished;
    outcome.transaction_uuid = Some(report.transaction_uuid.clone());
    outcome.exitcode = Some(i32::from(report.exit_code()));
    outcome.total = count(|_| true);
    outcome.changed = count(|status| status.changed);
    outcome.failed = count(|status| status.failed);
    outcome.failed_to_restart = count(|status| status.failed_to_restart);
    outcome.skipped = count(|status| status.skipped);
    outcome.out_of_sync = count(|status| status.out_of_sync);
    outcome.corrective = count(|status| status.corrective_change);
    outcome.config_version = crate::files::summary::value_text(&report.configuration_version);
    outcome.environment = Some(report.environment.clone());
    outcome.noop = Some(report.noop);
    let warnings = report.logs.iter().filter(|log| log.level >= RunLogLevel::Warning);
    outcome.log = warnings
        .map(|log| format!("{}: {}: {}", log.level.as_str(), log.source, log.message))
        .take(crate::classification::MAX_LOG_LINES)
        .collect();
    let is_changed = outcome.changed.unwrap_or_default() > 0;
    let has_failed = report.status == "failed";
    outcome.class = Some(PuppetRunClass::from_counts(has_failed, is_changed));
}
