//! Acquires what a run needs before it starts (the node's lock, no other Puppet, a permit) and releases it afterwards.

use std::time::{Duration, Instant};

use muster_api::base::unix_millis;
use muster_api::system::StateDir;
use muster_contract::puppet::{PuppetRunClass, PuppetRunState};
use muster_engine::lock::{self, CatalogRunLock, LockError, MusterRunLock};

use crate::permits::PermitError;

use super::{RunDriver, RunFailure, cancelled_failure, lock_timeout_failure};
use crate::native;
use crate::options::CatalogEngine;
use crate::permit::OptionalPermit;

/// How often a lock held by another process is checked.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The node's lock, held while the run is in progress.
#[expect(dead_code, reason = "held until they are dropped")]
pub(super) enum HeldRunLock {
    Own(MusterRunLock),
    All(CatalogRunLock),
}

impl RunDriver {
    /// Acquires the node's lock; with the native engine Puppet's lock too.
    pub(super) async fn acquire_lock(&self, deadline: Instant) -> Result<HeldRunLock, RunFailure> {
        loop {
            let (engine, states) = (self.runs.engine_dir(), self.puppet_state());
            let is_native = self.options.engine == CatalogEngine::Native;
            // Tries without waiting, so that the loop can react to a cancellation.
            let task = tokio::task::spawn_blocking(move || {
                if is_native {
                    return native::acquire_locks(&engine, &states, Duration::ZERO)
                        .map(HeldRunLock::All);
                }
                let state = StateDir::open(&engine)?;
                MusterRunLock::acquire(&state, Duration::ZERO).map(HeldRunLock::Own)
            });
            match task.await? {
                Ok(lock) => return Ok(lock),
                Err(LockError::Disabled { reason }) => return Err(RunFailure::disabled(&reason)),
                Err(error @ LockError::System(_)) => {
                    return Err(RunFailure::from_cause(PuppetRunClass::NotStarted, &error));
                }
                Err(error) => self.wait_for_retry(deadline, &error.to_string()).await?,
            }
        }
    }

    /// Waits until no Puppet that was started outside is running.
    pub(super) async fn wait_for_puppet(&self, deadline: Instant) -> Result<(), RunFailure> {
        loop {
            self.check_disabled()?;
            let Some(pid) = self.foreign_puppet() else { return Ok(()) };
            let reason = format!("Puppet is applying a catalog (process {pid})");
            self.wait_for_retry(deadline, &reason).await?;
        }
    }

    async fn wait_for_retry(&self, deadline: Instant, reason: &str) -> Result<(), RunFailure> {
        if Instant::now() >= deadline {
            return Err(lock_timeout_failure(reason));
        }
        tokio::select! {
            () = self.active_run.withdrawn.cancelled() => Err(cancelled_failure()),
            () = tokio::time::sleep(LOCK_POLL_INTERVAL) => Ok(()),
        }
    }

    /// Waits for a permit; `None` if Puppet was started outside meanwhile. That run must take the node's place in the pool, so the wait ends.
    pub(super) async fn acquire_permit(&mut self) -> Result<Option<OptionalPermit>, RunFailure> {
        self.set_state(PuppetRunState::WaitingPermit);
        let wait_started = Instant::now();
        let (permits, cancel) = (&self.runs.permits, &self.active_run.withdrawn);
        let (parameters, run) = (&self.permit_parameters, self.record.id);
        let result = tokio::select! {
            result = OptionalPermit::acquire_permit(permits, parameters, run, cancel) => result.map(Some),
            () = self.until_foreign_puppet() => Ok(None),
        };
        self.record.outcome.waited_permit += wait_started.elapsed().as_secs_f64();
        result.map_err(|error| match error {
            PermitError::Cancelled { .. } => cancelled_failure(),
            error => RunFailure::from_cause(PuppetRunClass::NoPermit, &error),
        })
    }

    /// Returns when a Puppet that was started outside is running.
    async fn until_foreign_puppet(&self) {
        while self.foreign_puppet().is_none() {
            tokio::time::sleep(LOCK_POLL_INTERVAL).await;
        }
    }

    /// Releases the permit, so that another node may run.
    pub(super) async fn release_permit(&mut self, permit: OptionalPermit) {
        if let Some(started) = self.record.outcome.started_at {
            let now = unix_millis(self.system.now());
            self.record.outcome.finished_at = Some(now);
            #[expect(
                clippy::cast_precision_loss,
                reason = "a run takes less than 2^52 milliseconds"
            )]
            let duration = now.saturating_sub(started) as f64 / 1000.0;
            self.record.outcome.duration = Some(duration);
        }
        self.record.outcome.pool_highest = permit.highest_count();
        permit.release().await;
    }

    pub(super) fn check_disabled(&self) -> Result<(), RunFailure> {
        let reason = lock::disabled_reason(&self.puppet_state());
        reason.map_or(Ok(()), |reason| Err(RunFailure::disabled(&reason)))
    }

    /// Process id of a Puppet that was started outside. Always `None` with the native engine, whose lock already excludes Puppet.
    pub(super) fn foreign_puppet(&self) -> Option<u32> {
        if self.options.engine == CatalogEngine::Native {
            return None;
        }
        lock::applying_process(&self.puppet_state())
    }
}
