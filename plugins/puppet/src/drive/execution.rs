//! Executes a run: starts Puppet's program, records it and follows it to its end; or runs the native engine.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use muster_api::base::unix_millis;
use muster_api::system::command::CancelFlag;
use muster_api::wire::history::{OWN_ENGINE, PUPPET_ENGINE, RunCause};
use muster_contract::puppet::{PuppetRunClass, PuppetRunState};
use uuid::Uuid;

use super::{RunDriver, RunFailure, run_blocking};
use crate::arguments::PuppetRunOptions;
use crate::classification;
use crate::history::{EngineRunRecorder, PuppetRunRecorder, start_values};
use crate::native;
use crate::paths::PuppetPaths;
use crate::permit::OptionalPermit;
use crate::program::{self, PreparedProgram, ProgramStartError};
use crate::record::ProgramRecord;
use crate::session::{SessionOutcome, StopRequest};
use crate::wrapper::trace::{TraceEvent, TraceLine};

impl RunDriver {
    /// Starts a program. It is recorded before and after its start, so that a daemon that is killed in between loses none of its refreshes.
    pub(super) async fn start_program(
        &mut self,
        run_options: PuppetRunOptions,
        targets: Vec<String>,
    ) -> Result<(), RunFailure> {
        let name = if self.record.before_replay.is_some() { "replay" } else { "run" };
        let directory = self.runs.records.run_directory(self.record.id).join(name);
        let (options, engine) = (self.options.clone(), self.runs.engine_dir());
        let (system, trace) = (Arc::clone(&self.system), self.trace.clone());
        let prepare = move || {
            let paths = PuppetPaths::find(&options, &*system).map_err(ProgramStartError::from)?;
            let mark =
                program::wait_for_report(&*system, &paths).map(|report| report.report_identity());
            let prepared = PreparedProgram {
                options: &options,
                system: &*system,
                paths: &paths,
                directory,
                run_options: &run_options,
                owed: program::owed_targets(&engine),
                trace,
            };
            let program = prepared.write_files(targets)?;
            Ok((paths, mark, program))
        };
        let not_started =
            |error: ProgramStartError| RunFailure::from_cause(PuppetRunClass::NotStarted, &error);
        let prepared: Result<_, ProgramStartError> = run_blocking(prepare).await?;
        let (paths, mark, program) = prepared.map_err(not_started)?;
        self.paths = Some(paths);
        let timeout = self.options.timeout.saturating_mul(1000);
        let is_first = self.record.before_replay.is_none();
        let step = ProgramRecord {
            process: None,
            directory: program.directory.clone(),
            history_run: Some(if is_first { self.record.id } else { Uuid::now_v7() }),
            mark,
            targets: program.targets.clone(),
            until: unix_millis(self.system.now()).saturating_add(timeout),
        };
        self.record_step(step.clone())?;
        let system = Arc::clone(&self.system);
        let started = run_blocking(move || program.start(&*system)).await?;
        let process = started.map_err(|error| {
            program::restore_catalog(&*self.system, &step.directory);
            not_started(error)
        })?;
        self.record_step(ProgramRecord { process: Some(process), ..step })?;
        self.set_state(PuppetRunState::Starting);
        Ok(())
    }

    fn record_step(&mut self, step: ProgramRecord) -> Result<(), RunFailure> {
        self.record.step = Some(step);
        self.record.outcome.state = PuppetRunState::Starting;
        self.runs
            .records
            .write(&self.record)
            .map_err(|error| RunFailure::from_cause(PuppetRunClass::NotStarted, &error))
    }

    /// Follows the started program until it ends or is stopped.
    pub(super) async fn follow_program(
        &mut self,
        permit: &OptionalPermit,
    ) -> Result<SessionOutcome, RunFailure> {
        let Some(step) = self.record.step.clone() else {
            return Err(RunFailure(
                PuppetRunClass::NotStarted,
                "no program was started".to_owned(),
            ));
        };
        self.recorder = self.record_in_history(&step);
        let left = step.until.saturating_sub(unix_millis(self.system.now()));
        let stop_request = Arc::new(StopRequest::default());
        let catalog = self
            .paths
            .as_ref()
            .and_then(|paths| program::catalog_path(&self.options, paths, &*self.system));
        let monitor = program::ProgramMonitor {
            system: Arc::clone(&self.system),
            engine: self.runs.engine_dir(),
            run: self.record.id.to_string(),
            is_noop: self.record.run_options.noop == Some(true),
            catalog,
            step,
            stop: Arc::clone(&stop_request),
            grace: Duration::from_secs(self.options.grace),
            is_resumed: std::mem::take(&mut self.is_resumed),
        };
        let active_run = Arc::clone(&self.active_run);
        let recorder = self.recorder.clone();
        let on_line = move |line: &TraceLine| {
            if line.classify_line() == TraceEvent::Applying {
                active_run.outcome.send_modify(|outcome| outcome.state = PuppetRunState::Applying);
            }
            if let Some(recorder) = &recorder {
                recorder.observe(line);
            }
        };
        let mut work = tokio::task::spawn_blocking(move || monitor.run_to_end(on_line));
        let timeout = tokio::time::sleep(Duration::from_millis(left));
        let mut timeout = std::pin::pin!(timeout);
        let mut is_stopped = false;
        let result = loop {
            tokio::select! {
                result = &mut work => break result,
                () = permit.until_lost(), if !is_stopped => stop_request.request_stop(PuppetRunClass::Fenced),
                () = self.active_run.cancel.cancelled(), if !is_stopped => stop_request.request_stop(PuppetRunClass::Cancelled),
                () = &mut timeout, if !is_stopped => stop_request.request_stop(PuppetRunClass::Timeout),
            }
            is_stopped = true;
        };
        self.record.outcome.state = self.active_run.outcome.borrow().state;
        result?.map_err(|error| RunFailure::from_cause(PuppetRunClass::NoReport, &error))
    }

    /// The record of the program in the fleet's history; `None` in a fleet without one.
    fn record_in_history(&self, step: &ProgramRecord) -> Option<PuppetRunRecorder> {
        let history = self.runs.history.clone();
        let run = step.history_run.filter(|_| history.is_wanted())?;
        let begun = step.until.saturating_sub(self.options.timeout.saturating_mul(1000));
        let begun = UNIX_EPOCH + Duration::from_millis(begun);
        let is_noop = self.record.run_options.noop == Some(true);
        let start = start_values(&self.host, is_noop, begun);
        let cause = RunCause { engine: PUPPET_ENGINE.to_owned(), ..self.record.cause.clone() };
        Some(PuppetRunRecorder::new(history, run, cause, start))
    }

    pub(super) async fn run_native(&mut self, permit: &OptionalPermit) -> Result<(), RunFailure> {
        self.record.outcome.started_at = Some(unix_millis(self.system.now()));
        self.set_state(PuppetRunState::Applying);
        let (system, run_options) = (Arc::clone(&self.system), self.record.run_options.clone());
        let (engine, catalog) = (self.runs.engine_dir(), self.options.catalog.clone());
        let host = self.host.clone();
        let cancel = CancelFlag::default();
        let flag = cancel.clone();
        let cause = RunCause { engine: OWN_ENGINE.to_owned(), ..self.record.cause.clone() };
        let recorder = EngineRunRecorder::new(self.runs.history.clone(), self.record.id, cause);
        let mut work = tokio::task::spawn_blocking(move || {
            native::apply_catalog(
                &system,
                &engine,
                catalog.as_deref(),
                &run_options,
                &host,
                cancel,
                recorder,
            )
        });
        let timeout = Duration::from_secs(self.options.timeout);
        let reason = tokio::select! {
            result = &mut work => {
                native::record_result(&mut self.record.outcome, result?);
                return Ok(());
            }
            () = permit.until_lost() => PuppetRunClass::Fenced,
            () = self.active_run.cancel.cancelled() => PuppetRunClass::Cancelled,
            () = tokio::time::sleep(timeout) => PuppetRunClass::Timeout,
        };
        flag.cancel();
        native::record_result(&mut self.record.outcome, work.await?);
        let message = classification::stop_message(&reason).to_owned();
        Err(RunFailure(reason, message))
    }
}
