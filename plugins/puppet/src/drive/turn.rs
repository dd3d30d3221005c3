//! A run's turn: the node's own lock, nobody else's Puppet, a permit of the fleet's; and leaving, so that it is another's turn.

use std::time::{Duration, Instant};

use muster_api::system::StateDir;
use muster_api::system::error::chain;
use muster_engine::lock::{self, LockError, OwnLock, RunLock};
use muster_permits::PermitError;

use super::{Drive, GivenUp, broken, cancelled, too_long};
use crate::native;
use crate::options::Engine;
use crate::outcome::{Reason, State};
use crate::permit::Room;
use crate::runs::millis;
use crate::verdict;

/// How often a lock that others hold is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// The node's lock, while the run goes on.
#[expect(dead_code, reason = "held until they are dropped")]
pub(super) enum Locked {
    Own(OwnLock),
    All(RunLock),
}

impl Drive {
    /// The node's own lock; Puppet's too, when our own engine is to run.
    pub(super) async fn lock(&self, until: Instant) -> Result<Locked, GivenUp> {
        loop {
            let (engine, states) = (self.runs.engine_dir(), self.puppet_state());
            let is_native = self.runs.options.engine == Engine::Native;
            let taken = tokio::task::spawn_blocking(move || {
                if is_native {
                    return native::lock(&engine, &states, Duration::ZERO).map(Locked::All);
                }
                let state = StateDir::open(&engine)?;
                OwnLock::take(&state, Duration::ZERO).map(Locked::Own)
            });
            match taken.await.map_err(|error| broken(&error))? {
                Ok(lock) => return Ok(lock),
                Err(LockError::Disabled { reason }) => {
                    return Err(GivenUp(Reason::Disabled, verdict::disabled(&reason)));
                }
                Err(error @ LockError::System(_)) => {
                    return Err(GivenUp(Reason::NotStarted, chain(&error)));
                }
                Err(error) => self.pause(until, &error.to_string()).await?,
            }
        }
    }

    /// Waits until no Puppet of somebody else's runs here.
    pub(super) async fn quiet(&self, until: Instant) -> Result<(), GivenUp> {
        loop {
            self.check_disabled()?;
            let Some(pid) = self.foreign() else {
                return Ok(());
            };
            let held = format!("Puppet is applying a catalog (process {pid})");
            self.pause(until, &held).await?;
        }
    }

    async fn pause(&self, until: Instant, held: &str) -> Result<(), GivenUp> {
        if Instant::now() >= until {
            return Err(too_long(held));
        }
        tokio::select! {
            () = self.live.cancel.cancelled() => Err(cancelled()),
            () = tokio::time::sleep(LOOK) => Ok(()),
        }
    }

    pub(super) async fn enter(&mut self) -> Result<Room, GivenUp> {
        if self.wanted.limit.is_none() {
            return Ok(Room::default());
        }
        self.state(State::WaitingPermit);
        let waited = Instant::now();
        let (desk, id) = (&self.runs.desk, self.record.id);
        let entered = Room::enter(desk, &self.wanted, id, &self.live.cancel).await;
        self.record.outcome.waited_permit += waited.elapsed().as_secs_f64();
        entered.map_err(|error| match error {
            PermitError::Cancelled { .. } => cancelled(),
            error => GivenUp(Reason::NoPermit, chain(&error)),
        })
    }

    /// Gives the permit back; from then on it is somebody else's turn.
    pub(super) async fn leave(&mut self, room: Room) {
        if let Some(started) = self.record.outcome.started_at {
            let now = millis(&*self.system);
            self.record.outcome.finished_at = Some(now);
            #[expect(
                clippy::cast_precision_loss,
                reason = "a run takes less than 2^52 milliseconds"
            )]
            let duration = now.saturating_sub(started) as f64 / 1000.0;
            self.record.outcome.duration = Some(duration);
        }
        room.release().await;
    }

    pub(super) fn check_disabled(&self) -> Result<(), GivenUp> {
        match lock::disabled(&self.puppet_state()) {
            Some(reason) => Err(GivenUp(Reason::Disabled, verdict::disabled(&reason))),
            None => Ok(()),
        }
    }

    /// A Puppet that somebody else started. When our own engine runs, its lock keeps others out instead.
    pub(super) fn foreign(&self) -> Option<u32> {
        if self.runs.options.engine == Engine::Native {
            return None;
        }
        lock::applying(&self.puppet_state())
    }
}
