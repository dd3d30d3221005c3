//! Background task: resumes the runs that an earlier daemon began, and counts runs that were started outside.
//!
//! A run started by cron or at the console cannot be delayed. It still takes a place in the pool, so that requested runs wait for it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use muster_api::base::error_chain;
use muster_api::system::System;
use muster_engine::lock;
use muster_files::FileStamp;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::paths::PuppetPaths;
use crate::permit::{OptionalPermit, PermitParameters};
use crate::runs::PuppetRunManager;

const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Number of polls between attempts to count an outside run for which no permit was acquired.
const POLLS_PER_RETRY: u32 = 40;
/// Number of polls between lookups of Puppet's state directory. A lookup takes about a dozen system calls, a poll takes one, and an idle daemon does
/// nothing else.
const POLLS_PER_LOOKUP: u32 = 40;

/// How often a new report of Puppet is looked for. A look takes about a dozen system calls.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// The agent's background task. Runs until the daemon stops.
#[derive(Debug, Clone)]
pub struct PuppetRunMonitor {
    runs: Arc<PuppetRunManager>,
    system: Arc<dyn System>,
}

impl PuppetRunMonitor {
    pub(crate) fn new(runs: Arc<PuppetRunManager>, system: Arc<dyn System>) -> Self {
        Self { runs, system }
    }

    /// Runs until `stop` is cancelled; running programs continue after that.
    pub async fn run(self, stop: CancellationToken) {
        self.resume_runs().await;
        self.runs.resumed.cancel();
        tokio::select! {
            () = self.watch_other_runs() => {}
            () = self.record_other_runs() => {}
            () = stop.cancelled() => {}
        }
        self.runs.stopping.cancel();
    }

    /// Resumes the runs that an earlier daemon began.
    async fn resume_runs(&self) {
        let records = self.runs.records.clone();
        let task = spawn_blocking(move || records.list());
        for record in task.await.unwrap_or_default() {
            if !record.outcome.state.is_over() {
                self.runs.resume_run(record, &self.system);
            }
        }
    }

    /// Notices the end of runs that are started outside, and counts them in the pool if the options say so.
    async fn watch_other_runs(&self) {
        let mut cache = StateDirCache::default();
        loop {
            let Some(pid) = self.foreign_puppet(&mut cache) else {
                tokio::time::sleep(cache.poll_delay()).await;
                continue;
            };
            tracing::debug!(pid, "a Puppet run was started outside this agent");
            if self.runs.options.occupy {
                self.occupy_during(pid, &mut cache).await;
            } else {
                while self.foreign_puppet(&mut cache) == Some(pid) {
                    tokio::time::sleep(LOCK_POLL_INTERVAL).await;
                }
            }
            self.runs.state_changes.notify();
        }
    }

    /// Records in the fleet's history the reports of runs that are started outside.
    async fn record_other_runs(&self) {
        let mut seen = None;
        loop {
            let monitor = self.clone();
            if self.runs.other_runs.is_wanted() && self.runs.is_idle() {
                let task = spawn_blocking(move || monitor.record_new_report(seen));
                seen = task.await.unwrap_or_default();
            }
            tokio::time::sleep(REPORT_INTERVAL).await;
        }
    }

    /// Records a report that differs from the one with this stamp; returns its stamp. Blocks.
    fn record_new_report(&self, seen: Option<FileStamp>) -> Option<FileStamp> {
        let paths = PuppetPaths::find(&self.runs.options, &*self.system).ok()?;
        let stamp = paths.report_metadata(&*self.system).as_ref().map(FileStamp::of_metadata);
        if stamp != seen
            && let Err(error) = self.runs.other_runs.record_report(&paths, &*self.system)
        {
            tracing::warn!(error = error_chain(&error), "cannot record the report of a Puppet run");
        }
        stamp
    }

    /// Occupies a permit while this process holds Puppet's lock.
    async fn occupy_during(&self, pid: u32, cache: &mut StateDirCache) {
        let parameters = PermitParameters::without_limit(self.runs.pool.clone());
        let occupy =
            || OptionalPermit::occupy_permit(&self.runs.permits, &parameters, Uuid::now_v7());
        let mut permit = occupy().await;
        let mut polls = 0_u32;
        while self.foreign_puppet(cache) == Some(pid) {
            tokio::time::sleep(LOCK_POLL_INTERVAL).await;
            polls = polls.wrapping_add(1);
            if permit.fence().is_none() && polls.is_multiple_of(POLLS_PER_RETRY) {
                permit = occupy().await;
            }
        }
        permit.release().await;
    }

    /// Process that holds Puppet's lock and is neither a run of this agent nor the daemon itself.
    fn foreign_puppet(&self, cache: &mut StateDirCache) -> Option<u32> {
        if self.runs.is_applying() {
            return None;
        }
        let state = cache.cached_state_dir(|| {
            let paths = PuppetPaths::find(&self.runs.options, &*self.system).ok()?;
            Some(self.system.host_path(&paths.state_dir()))
        })?;
        lock::applying_process(&[state]).filter(|pid| *pid != std::process::id())
    }
}

#[derive(Debug, Default)]
struct StateDirCache {
    state: Option<PathBuf>,
    polls: u32,
}

impl StateDirCache {
    /// Calls `find` while none is known, and again every [`POLLS_PER_LOOKUP`] polls.
    fn cached_state_dir(&mut self, find: impl FnOnce() -> Option<PathBuf>) -> Option<PathBuf> {
        if self.state.is_none() || self.polls.is_multiple_of(POLLS_PER_LOOKUP) {
            self.state = find();
        }
        self.polls = self.polls.wrapping_add(1);
        self.state.clone()
    }

    /// Time until the next poll. Longer on a machine without Puppet, which is unlikely to get one soon.
    fn poll_delay(&self) -> Duration {
        match self.state {
            Some(_) => LOCK_POLL_INTERVAL,
            None => LOCK_POLL_INTERVAL * POLLS_PER_LOOKUP,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{LOCK_POLL_INTERVAL, POLLS_PER_LOOKUP, StateDirCache};

    #[test]
    fn state_directory_is_looked_up_periodically_and_changes_are_detected() {
        let (mut whereabouts, mut asked) = (StateDirCache::default(), 0);
        for look in 0..=2 * POLLS_PER_LOOKUP {
            let place = if look < POLLS_PER_LOOKUP { "/old" } else { "/new" };
            let found = whereabouts.cached_state_dir(|| {
                asked += 1;
                Some(PathBuf::from(place))
            });
            assert_eq!(found, Some(PathBuf::from(place)));
        }
        assert_eq!(asked, 3);
    }

    #[test]
    fn machine_without_puppet_is_polled_less_often() {
        let mut whereabouts = StateDirCache::default();
        assert_eq!(whereabouts.cached_state_dir(|| None), None);
        assert_eq!(whereabouts.poll_delay(), LOCK_POLL_INTERVAL * POLLS_PER_LOOKUP);
        let there = Some(PathBuf::from("/installed/meanwhile"));
        assert_eq!(whereabouts.cached_state_dir(|| there.clone()), there);
        assert_eq!(whereabouts.poll_delay(), LOCK_POLL_INTERVAL);
    }
}
