//! What goes on beside requests: runs that an earlier daemon began are taken up, and runs that somebody else starts are counted.
//!
//! A run of cron, or of a person at the console, cannot be asked to wait. It takes room in the pool all the same, so that those
//! who can wait do.

use std::sync::Arc;
use std::time::Duration;

use muster_api::system::System;
use muster_engine::lock;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::permit::Room;
use crate::places::{Places, on_host};
use crate::runs::Runs;

/// How often Puppet's lock is looked at.
const LOOK: Duration = Duration::from_millis(250);
/// How often a run of somebody else that was not counted is tried to be counted again.
const RETRY: u32 = 40;

/// The agent's part that nobody asks for. Runs until the daemon stops.
#[derive(Debug, Clone)]
pub struct Resident {
    runs: Arc<Runs>,
    system: Arc<dyn System>,
}

impl Resident {
    pub(crate) fn new(runs: Arc<Runs>, system: Arc<dyn System>) -> Self {
        Self { runs, system }
    }

    /// Works until `stop` is cancelled; programs that run then go on without us.
    pub async fn run(self, stop: CancellationToken) {
        self.take_up().await;
        tokio::select! {
            () = self.watch() => {}
            () = stop.cancelled() => {}
        }
        self.runs.leaving.cancel();
    }

    /// Takes up what an earlier daemon began.
    async fn take_up(&self) {
        let records = self.runs.records.clone();
        let kept = tokio::task::spawn_blocking(move || records.list());
        for record in kept.await.unwrap_or_default() {
            if !record.outcome.state.is_over() {
                self.runs.take_up(record, &self.system);
            }
        }
    }

    /// Counts the runs that somebody else starts.
    async fn watch(&self) {
        if !self.runs.options.occupy {
            return std::future::pending().await;
        }
        loop {
            let Some(pid) = self.foreign() else {
                tokio::time::sleep(LOOK).await;
                continue;
            };
            tracing::debug!(pid, "somebody else runs Puppet here");
            let occupy = || Room::occupy(&self.runs.desk, &self.runs.pool, Uuid::now_v7());
            let mut room = occupy().await;
            let mut looks = 0_u32;
            while self.foreign() == Some(pid) {
                tokio::time::sleep(LOOK).await;
                looks = looks.wrapping_add(1);
                if room.fence().is_none() && looks.is_multiple_of(RETRY) {
                    room = occupy().await;
                }
            }
            room.release().await;
        }
    }

    /// A process that holds Puppet's lock and is neither ours nor the daemon itself.
    fn foreign(&self) -> Option<u32> {
        if self.runs.is_applying() {
            return None;
        }
        let places = Places::find(&self.runs.options, &*self.system).ok()?;
        let state = on_host(&*self.system, &places.state());
        lock::applying(&[state]).filter(|pid| *pid != std::process::id())
    }
}
