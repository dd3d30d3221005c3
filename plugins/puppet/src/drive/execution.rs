//! Executes a run: starts Puppet's program, records it and follows it to its end; or runs the native engine.

use std::sync::Arc;
use std::time::Duration;

use muster_api::system::command::CancelFlag;
use muster_api::system::error::error_chain;
use muster_contract::puppet::{PuppetRunClass, PuppetRunState};

use super::{RunDriver, RunFailure, join_failure, run_blocking};
use crate::arguments::PuppetRunOptions;
use crate::classification;
use crate::files::report::ReportIdentity;
use crate::native;
use crate::paths::PuppetPaths;
use crate::permit::OptionalPermit;
use crate::program::{self, PreparedProgram, ProgramStartError};
use crate::record::ProgramRecord;
use crate::runs::unix_millis_now;
use crate::session::{SessionOutcome, StopRequest};

impl RunDriver {
    /// Starts a program, and records its process.
    pub(super) async fn start_program(
        &mut self,
        wish: PuppetRunOptions,
        targets: Vec<String>,
    ) -> Result<(), RunFailure> {
        let name = if self.record.before_replay.is_some() {
            "replay"
        } else {
            "run"
        };
        let directory = self.runs.records.run_directory(self.record.id).join(name);
        let (options, engine) = (self.runs.options.clone(), self.runs.engine_dir());
        let (system, trace) = (Arc::clone(&self.system), self.trace.clone());
        let begin = move || {
            let places = PuppetPaths::find(&options, &*system).map_err(ProgramStartError::from)?;
            let mark =
                program::wait_for_report(&*system, &places).map(|report| report.report_identity());
            let prepared = PreparedProgram {
                options: &options,
                system: &*system,
                places: &places,
                directory,
                wish: &wish,
                owed: program::owed_targets(&engine),
                trace,
            };
            let program = prepared.start_program(targets)?;
            Ok((places, mark, program))
        };
        let started: Result<_, ProgramStartError> = run_blocking(begin).await?;
        let (places, mark, program) =
            started.map_err(|error| RunFailure(PuppetRunClass::NotStarted, error_chain(&error)))?;
        self.places = Some(places);
        self.record_start(program, mark)?;
        self.set_state(PuppetRunState::Starting);
        Ok(())
    }

    fn record_start(
        &mut self,
        begun: program::StartedProgram,
        mark: Option<ReportIdentity>,
    ) -> Result<(), RunFailure> {
        let timeout = self.runs.options.timeout.saturating_mul(1000);
        self.record.step = Some(ProgramRecord {
            process: begun.process,
            directory: begun.directory,
            mark,
            targets: begun.targets,
            until: unix_millis_now(&*self.system).saturating_add(timeout),
        });
        self.record.outcome.state = PuppetRunState::Starting;
        self.runs
            .records
            .write(&self.record)
            .map_err(|error| RunFailure(PuppetRunClass::NotStarted, error_chain(&error)))
    }

    /// Follows the started program until it ends or is stopped.
    pub(super) async fn follow_program(
        &mut self,
        room: &OptionalPermit,
    ) -> Result<SessionOutcome, RunFailure> {
        let Some(step) = self.record.step.clone() else {
            return Err(RunFailure(
                PuppetRunClass::NotStarted,
                "no program was started".to_owned(),
            ));
        };
        let left = step.until.saturating_sub(unix_millis_now(&*self.system));
        let wish_to_end = Arc::new(StopRequest::default());
        let catalog = self
            .places
            .as_ref()
            .and_then(|places| program::catalog_path(&self.runs.options, places, &*self.system));
        let follow = program::ProgramMonitor {
            system: Arc::clone(&self.system),
            engine: self.runs.engine_dir(),
            run: self.record.id.to_string(),
            is_noop: self.record.wish.noop == Some(true),
            catalog,
            step,
            stop: Arc::clone(&wish_to_end),
            grace: Duration::from_secs(self.runs.options.grace),
        };
        let live = Arc::clone(&self.live);
        let applying = move || {
            live.outcome
                .send_modify(|outcome| outcome.state = PuppetRunState::Applying);
        };
        let mut work = tokio::task::spawn_blocking(move || follow.run_to_end(applying));
        let end = tokio::time::sleep(Duration::from_millis(left));
        let mut end = std::pin::pin!(end);
        let mut is_stopped = false;
        let ended = loop {
            tokio::select! {
                ended = &mut work => break ended,
                () = room.until_lost(), if !is_stopped => wish_to_end.request_stop(PuppetRunClass::Fenced),
                () = self.live.cancel.cancelled(), if !is_stopped => wish_to_end.request_stop(PuppetRunClass::Cancelled),
                () = &mut end, if !is_stopped => wish_to_end.request_stop(PuppetRunClass::Timeout),
            }
            is_stopped = true;
        };
        self.record.outcome.state = self.live.outcome.borrow().state;
        ended
            .map_err(|error| join_failure(&error))?
            .map_err(|error| RunFailure(PuppetRunClass::NoReport, error_chain(&error)))
    }

    pub(super) async fn run_native(&mut self, room: &OptionalPermit) -> Result<(), RunFailure> {
        self.record.outcome.started_at = Some(unix_millis_now(&*self.system));
        self.set_state(PuppetRunState::Applying);
        let (system, wish) = (Arc::clone(&self.system), self.record.wish.clone());
        let (engine, catalog) = (self.runs.engine_dir(), self.runs.options.catalog.clone());
        let (host, id) = (self.host.clone(), self.record.id.to_string());
        let cancel = CancelFlag::default();
        let flag = cancel.clone();
        let mut work = tokio::task::spawn_blocking(move || {
            let who = (host.as_str(), id);
            native::apply_catalog(&system, &engine, catalog.as_deref(), &wish, who, cancel)
        });
        let timeout = Duration::from_secs(self.runs.options.timeout);
        let stopped = tokio::select! {
            result = &mut work => {
                native::record_result(&mut self.record.outcome, result.map_err(|error| join_failure(&error))?);
                return Ok(());
            }
            () = room.until_lost() => PuppetRunClass::Fenced,
            () = self.live.cancel.cancelled() => PuppetRunClass::Cancelled,
            () = tokio::time::sleep(timeout) => PuppetRunClass::Timeout,
        };
        flag.cancel();
        native::record_result(
            &mut self.record.outcome,
            work.await.map_err(|error| join_failure(&error))?,
        );
        let message = classification::stop_message(&stopped).to_owned();
        Err(RunFailure(stopped, message))
    }
}
