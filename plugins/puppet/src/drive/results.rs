//! Reads the result of a program that has ended: report, summary, refreshes, and the catalog for a later replay.

use std::sync::Arc;

use muster_engine::lock;

use super::{RunDriver, RunFailure, run_blocking};
use crate::classification::{self, RunEvidence};
use crate::files::last_run::read_puppet_run;
use crate::files::summary::PuppetRunSummary;
use crate::program;
use crate::session::{SessionOutcome, StartFailure};

impl RunDriver {
    pub(super) async fn record_result(
        &mut self,
        session: SessionOutcome,
    ) -> Result<(), RunFailure> {
        let step = self.record.step.clone();
        let (system, paths) = (Arc::clone(&self.system), self.paths.clone());
        let (engine, others) = (self.runs.engine_dir(), self.runs.other_runs.clone());
        // The summary's time has whole seconds. A summary from the second in which this program began may be that of an earlier run.
        let timeout = self.options.timeout.saturating_mul(1000);
        let started_at = step.as_ref().map(|step| step.until.saturating_sub(timeout));
        let since = started_at.map(|at| at / 1000 + 1);
        let read_results = move || {
            let step = step?;
            program::restore_catalog(&*system, &step.directory);
            let owed = program::owed_targets(&engine);
            let is_refreshed = |target: &String| !owed.contains(target);
            let refreshed: Vec<String> = step.targets.into_iter().filter(is_refreshed).collect();
            let paths = paths?;
            let report = program::wait_for_report(&*system, &paths);
            let report = report.filter(|report| Some(report.report_identity()) != step.mark);
            if let Some(report) = &report
                && let Err(error) = others.note_recorded(report)
            {
                tracing::warn!(%error, "cannot note which report of Puppet is recorded");
            }
            let run = read_puppet_run(&*system, &paths).ok().flatten();
            let summary = run.map(|run| run.summary);
            let is_ours = |summary: &PuppetRunSummary| summary.last_run() >= since;
            Some((refreshed, report, summary.filter(is_ours)))
        };
        let (refreshed, report, summary) = run_blocking(read_results).await?.unwrap_or_default();
        self.record.outcome.replayed = refreshed;
        self.report.clone_from(&report);
        let evidence = RunEvidence {
            report,
            summary,
            exit: session.exit,
            stopped: session.stopped,
            disabled: lock::disabled_reason(&self.puppet_state()),
            log: session.log,
            was_locked: session.was_locked,
            start_failure: self.locate_start_failure(session.start_failure).await?,
        };
        classification::record_result(&mut self.record.outcome, &evidence);
        if session.had_catalog && self.record.run_options.noop != Some(true) {
            self.keep_catalog().await?;
        }
        Ok(())
    }

    /// Adds file, line and reason to Puppet's error about a catalog file, which names none of them.
    async fn locate_start_failure(
        &self,
        failure: Option<StartFailure>,
    ) -> Result<Option<StartFailure>, RunFailure> {
        let catalog = self.options.catalog.clone();
        let is_unlocated =
            |failure: &StartFailure| failure.is_about_catalog() && !failure.is_located;
        let (Some(failure), Some(path)) = (failure.clone().filter(is_unlocated), catalog) else {
            return Ok(failure);
        };
        let system = Arc::clone(&self.system);
        let reason = run_blocking(move || program::catalog_file_problem(&*system, &path)).await?;
        Ok(Some(match reason {
            Some(message) => StartFailure { message, is_located: true },
            None => failure,
        }))
    }

    /// Keeps the catalog of the run for `rpc ledger replay`, as the native engine does.
    async fn keep_catalog(&self) -> Result<(), RunFailure> {
        let Some(paths) = self.paths.clone() else { return Ok(()) };
        let (system, engine) = (Arc::clone(&self.system), self.runs.engine_dir());
        let options = self.options.clone();
        run_blocking(move || {
            let path = program::catalog_path(&options, &paths, &*system)?;
            program::keep_catalog(&*system, &path, &engine);
            Some(())
        })
        .await
        .map(drop)
    }
}
