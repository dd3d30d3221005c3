//! The run itself: Puppet's program, started, written down and followed to its end; or our own engine.

use std::sync::Arc;
use std::time::Duration;

use muster_api::system::command::Cancel;
use muster_api::system::error::chain;

use super::{Drive, GivenUp, blocking, broken};
use crate::arguments::Wish;
use crate::files::report::Mark;
use crate::native;
use crate::outcome::{Reason, State};
use crate::permit::Room;
use crate::places::Places;
use crate::program::{self, Prepared, StartError};
use crate::record::Step;
use crate::runs::millis;
use crate::session::{Ended, Stop};
use crate::verdict;

impl Drive {
    /// Starts a program, and writes down which.
    pub(super) async fn start(&mut self, wish: Wish, targets: Vec<String>) -> Result<(), GivenUp> {
        let name = if self.record.before_replay.is_some() {
            "replay"
        } else {
            "run"
        };
        let directory = self.runs.records.place(self.record.id).join(name);
        let (options, engine) = (self.runs.options.clone(), self.runs.engine_dir());
        let (system, trace) = (Arc::clone(&self.system), self.trace.clone());
        let begin = move || {
            let places = Places::find(&options, &*system).map_err(StartError::from)?;
            let mark = program::report(&*system, &places).map(|report| report.mark());
            let prepared = Prepared {
                options: &options,
                system: &*system,
                places: &places,
                directory,
                wish: &wish,
                owed: program::owed(&engine),
                trace,
            };
            let program = prepared.start(targets)?;
            Ok((places, mark, program))
        };
        let started: Result<_, StartError> = blocking(begin).await?;
        let (places, mark, program) =
            started.map_err(|error| GivenUp(Reason::NotStarted, chain(&error)))?;
        self.places = Some(places);
        self.began(program, mark)?;
        self.state(State::Starting);
        Ok(())
    }

    fn began(&mut self, begun: program::Begun, mark: Option<Mark>) -> Result<(), GivenUp> {
        let timeout = self.runs.options.timeout.saturating_mul(1000);
        self.record.step = Some(Step {
            process: begun.process,
            directory: begun.directory,
            mark,
            targets: begun.targets,
            until: millis(&*self.system).saturating_add(timeout),
        });
        self.record.outcome.state = State::Starting;
        self.runs
            .records
            .write(&self.record)
            .map_err(|error| GivenUp(Reason::NotStarted, chain(&error)))
    }

    /// Follows the program that was started until it has ended, by itself or because it must.
    pub(super) async fn follow(&mut self, room: &Room) -> Result<Ended, GivenUp> {
        let Some(step) = self.record.step.clone() else {
            return Err(GivenUp(
                Reason::NotStarted,
                "nothing was started".to_owned(),
            ));
        };
        let left = step.until.saturating_sub(millis(&*self.system));
        let wish_to_end = Arc::new(Stop::default());
        let catalog = self
            .places
            .as_ref()
            .and_then(|places| program::catalog_path(&self.runs.options, places, &*self.system));
        let follow = program::Follow {
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
                .send_modify(|outcome| outcome.state = State::Applying);
        };
        let mut work = tokio::task::spawn_blocking(move || follow.until_its_end(applying));
        let end = tokio::time::sleep(Duration::from_millis(left));
        let mut end = std::pin::pin!(end);
        let mut is_stopped = false;
        let ended = loop {
            tokio::select! {
                ended = &mut work => break ended,
                () = room.lost(), if !is_stopped => wish_to_end.raise(Reason::Fenced),
                () = self.live.cancel.cancelled(), if !is_stopped => wish_to_end.raise(Reason::Cancelled),
                () = &mut end, if !is_stopped => wish_to_end.raise(Reason::Timeout),
            }
            is_stopped = true;
        };
        self.record.outcome.state = self.live.outcome.borrow().state;
        ended
            .map_err(|error| broken(&error))?
            .map_err(|error| GivenUp(Reason::NoReport, chain(&error)))
    }

    pub(super) async fn native(&mut self, room: &Room) -> Result<(), GivenUp> {
        self.record.outcome.started_at = Some(millis(&*self.system));
        self.state(State::Applying);
        let (system, wish) = (Arc::clone(&self.system), self.record.wish.clone());
        let (engine, catalog) = (self.runs.engine_dir(), self.runs.options.catalog.clone());
        let (host, id) = (self.host.clone(), self.record.id.to_string());
        let cancel = Cancel::default();
        let flag = cancel.clone();
        let mut work = tokio::task::spawn_blocking(move || {
            let who = (host.as_str(), id);
            native::apply(&system, &engine, catalog.as_deref(), &wish, who, cancel)
        });
        let timeout = Duration::from_secs(self.runs.options.timeout);
        let stopped = tokio::select! {
            result = &mut work => {
                native::judge(&mut self.record.outcome, result.map_err(|error| broken(&error))?);
                return Ok(());
            }
            () = room.lost() => Reason::Fenced,
            () = self.live.cancel.cancelled() => Reason::Cancelled,
            () = tokio::time::sleep(timeout) => Reason::Timeout,
        };
        flag.cancel();
        native::judge(
            &mut self.record.outcome,
            work.await.map_err(|error| broken(&error))?,
        );
        Err(GivenUp(stopped, verdict::stopped(stopped).to_owned()))
    }
}
