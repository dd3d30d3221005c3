//! Follows the bucket `HISTORY`, and keeps the index current.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant as StdInstant};

use muster_api::LogThrottle;
use muster_api::base::{duration_millis, error_chain};
use muster_bus::{Bucket, BucketEntry, BucketError, BucketWatch, Bus};
use muster_directory::{DirectoryContext, DirectoryHandle};
use muster_wire::Millis;
use muster_wire::history::decompress_records;
use muster_wire::identity::Identity;
use muster_wire::sign::open_history;
use muster_wire::stores::HISTORY_BUCKET;
use muster_wire::token::TokenCache;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, MissedTickBehavior, interval, interval_at, sleep};
use tokio_util::sync::CancellationToken;

use crate::index::{HistoryFigures, HistoryIndex, IndexError, IngestedMessage, OpenedBatch};

/// Pause after an error of the broker or of the index.
const RETRY_DELAY: Duration = Duration::from_secs(2);
/// Messages that are stored together.
const SHARE_MESSAGES: usize = 256;
/// Shortest time between two log lines about refused messages.
const REFUSAL_INTERVAL: Duration = Duration::from_secs(10);
/// How often it is checked whether the bucket was created again.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How often the figures for monitoring are counted.
const FIGURES_INTERVAL: Duration = Duration::from_secs(20);
/// How long the events of runs without changes are kept.
const KEEP_UNCHANGED: Duration = Duration::from_hours(24);
/// Runs whose events are deleted together.
const SHARE_RUNS: usize = 2000;
/// How often it is checked whether the nodes of runs that go on are missing.
const LOST_INTERVAL: Duration = Duration::from_secs(10);
/// How often old rows are deleted.
const DELETE_INTERVAL: Duration = Duration::from_hours(6);

/// One instance of the history.
pub struct HistoryService {
    bus: Bus,
    bucket: Bucket,
    index: Arc<HistoryIndex>,
    source: DirectoryContext,
    directory: DirectoryHandle,
    tokens: TokenCache,
    keep: Duration,
    silent: Duration,
    progress: Arc<HistoryProgress>,
    /// A node can send invalid messages without limit.
    refusals: LogThrottle,
}

/// How far the index lags, and what it took.
#[derive(Debug, Default)]
pub struct HistoryProgress {
    behind: AtomicU64,
    taken: AtomicU64,
    refused: AtomicU64,
    figures: Mutex<HistoryFigures>,
}

impl HistoryProgress {
    /// Messages that the index does not have yet.
    pub fn behind(&self) -> u64 {
        self.behind.load(Ordering::Relaxed)
    }

    /// Records that were taken since the start.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Messages that were refused since the start.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Figures about the last runs, some seconds old.
    pub fn figures(&self) -> HistoryFigures {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl std::fmt::Debug for HistoryService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HistoryService").field("index", &self.index).finish_non_exhaustive()
    }
}

/// Why following ended.
#[derive(Debug, thiserror::Error)]
enum FollowError {
    #[error(transparent)]
    Bucket(#[from] BucketError),
    #[error(transparent)]
    Index(#[from] IndexError),
    #[error("a task of the index ended")]
    Task(#[from] tokio::task::JoinError),
}

impl HistoryService {
    /// `keep`: rows that are older are deleted. `silent`: nodes whose last run began longer ago are counted as silent.
    pub fn new(
        bus: Bus,
        index: Arc<HistoryIndex>,
        source: DirectoryContext,
        directory: DirectoryHandle,
        (keep, silent): (Duration, Duration),
    ) -> Self {
        let bucket = bus.bucket(HISTORY_BUCKET.name);
        let (tokens, progress) = (TokenCache::default(), Arc::default());
        let refusals = LogThrottle::new(REFUSAL_INTERVAL);
        Self { bus, bucket, index, source, directory, tokens, keep, silent, progress, refusals }
    }

    /// How far the index lags, for answers.
    pub fn progress(&self) -> Arc<HistoryProgress> {
        Arc::clone(&self.progress)
    }

    /// While the broker is away, the index stays as it is.
    pub async fn run_until_stopped(self, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.follow_forever() => {}
            () = self.delete_old() => {}
            () = self.close_lost_runs() => {}
            () = self.count_figures() => {}
        }
        if let Err(error) = self.bus.close().await {
            tracing::debug!(%error, "cannot close the connection of the history cleanly");
        }
    }

    async fn follow_forever(&self) {
        loop {
            if let Err(error) = self.follow().await {
                let error = error_chain(&error);
                tracing::warn!(error, "the history cannot follow the nodes; trying again");
            }
            sleep(RETRY_DELAY).await;
        }
    }

    async fn follow(&self) -> Result<(), FollowError> {
        let index = Arc::clone(&self.index);
        let (revision, time) = spawn_blocking(move || index.progress()).await??;
        let mut watch = self.bucket.retry_until_dropped().watch_after(revision, time).await?;
        let mut check = interval(CHECK_INTERVAL);
        check.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let first = tokio::select! {
                first = watch.next() => first?,
                // Messages of a bucket that was created again have revisions that were read before, and are not returned.
                _ = check.tick() => {
                    if watch.has_stale_revisions() {
                        return self.begin_again().await;
                    }
                    continue;
                }
            };
            let Some(first) = first else { return Ok(()) };
            let (messages, waiting) = self.open_share(&first, &mut watch);
            self.progress.behind.store(waiting, Ordering::Relaxed);
            let index = Arc::clone(&self.index);
            let taken = spawn_blocking(move || index.ingest(&messages)).await??;
            self.progress
                .taken
                .fetch_add(u64::try_from(taken).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }

    /// Reads the bucket from its beginning next.
    async fn begin_again(&self) -> Result<(), FollowError> {
        tracing::warn!("the bucket of the history was created again; reading all of it");
        let index = Arc::clone(&self.index);
        Ok(spawn_blocking(move || index.forget_revision()).await??)
    }

    /// Opens messages that were received, and says how many wait behind them.
    fn open_share(
        &self,
        first: &BucketEntry,
        watch: &mut BucketWatch,
    ) -> (Vec<IngestedMessage>, u64) {
        let mut messages = vec![self.open_message(first)];
        while messages.len() < SHARE_MESSAGES {
            let Some(entry) = watch.next_received() else { break };
            messages.push(self.open_message(&entry));
        }
        let last = messages.last().map_or(0, |message| message.revision);
        (messages, watch.complete_revision().saturating_sub(last))
    }

    fn open_message(&self, entry: &BucketEntry) -> IngestedMessage {
        let batch = self.open_batch(entry);
        if let Err(problem) = &batch
            && let Some(more) = self.refusals.admit(StdInstant::now())
        {
            tracing::warn!(node = entry.key, problem, more, "refused a message of the history");
        }
        self.progress.refused.fetch_add(u64::from(batch.is_err()), Ordering::Relaxed);
        IngestedMessage {
            revision: entry.revision,
            time: entry.created,
            batch: batch.ok().flatten(),
        }
    }

    /// `None` for a deletion.
    fn open_batch(&self, entry: &BucketEntry) -> Result<Option<OpenedBatch>, String> {
        let Some(value) = &entry.value else { return Ok(None) };
        let node = Identity::parse(&entry.key).map_err(|error| error.to_string())?;
        let (trust, now) = ((self.source.trust)(), (self.source.clock)());
        let batch = open_history(value, &node, &trust, &self.tokens, now)
            .map_err(|error| error_chain(&error))?;
        let records = decompress_records(&batch.records).map_err(|error| error_chain(&error))?;
        let (segment, previous) = (batch.segment, batch.previous);
        Ok(Some(OpenedBatch { node, segment, previous, records }))
    }

    /// Marks runs as aborted whose nodes are missing.
    async fn close_lost_runs(&self) {
        let mut ticks = interval_at(Instant::now() + LOST_INTERVAL, LOST_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let (index, directory) = (Arc::clone(&self.index), self.directory.clone());
            let now = (self.source.clock)();
            match spawn_blocking(move || mark_lost_runs(&index, &directory, now)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    let error = error_chain(&error);
                    tracing::warn!(error, "cannot mark the runs of missing nodes");
                }
                Err(error) => tracing::warn!(%error, "a task of the index ended"),
            }
        }
    }

    async fn count_figures(&self) {
        let mut ticks = interval_at(Instant::now() + LOST_INTERVAL, FIGURES_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let silent_before = (self.source.clock)().saturating_sub(duration_millis(self.silent));
            let index = Arc::clone(&self.index);
            match spawn_blocking(move || index.figures(silent_before)).await {
                Ok(Ok(figures)) => {
                    *self.progress.figures.lock().unwrap_or_else(PoisonError::into_inner) = figures;
                }
                Ok(Err(error)) => {
                    let error = error_chain(&error);
                    tracing::warn!(error, "cannot count the last runs for the metrics");
                }
                Err(error) => tracing::warn!(%error, "a task of the index ended"),
            }
        }
    }

    async fn delete_old(&self) {
        let mut ticks = interval_at(Instant::now() + RETRY_DELAY, DELETE_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let now = (self.source.clock)();
            let before = now.saturating_sub(duration_millis(self.keep));
            let index = Arc::clone(&self.index);
            match spawn_blocking(move || delete_old_rows(&index, before, now)).await {
                Ok(Ok(0)) => {}
                Ok(Ok(rows)) => tracing::info!(rows, "deleted what the history no longer keeps"),
                Ok(Err(error)) => {
                    let error = error_chain(&error);
                    tracing::warn!(error, "cannot delete old rows of the history");
                }
                Err(error) => tracing::warn!(%error, "a task of the index ended"),
            }
        }
    }
}

fn delete_old_rows(index: &HistoryIndex, before: Millis, now: Millis) -> Result<usize, IndexError> {
    let unchanged = now.saturating_sub(duration_millis(KEEP_UNCHANGED));
    while index.thin_unchanged(unchanged, SHARE_RUNS)? == SHARE_RUNS {}
    index.delete_before(before)
}

fn mark_lost_runs(
    index: &HistoryIndex,
    directory: &DirectoryHandle,
    now: Millis,
) -> Result<(), IndexError> {
    for (run, node) in index.going_on()? {
        let is_missing = Identity::parse(&node).is_ok_and(|node| directory.is_missing(&node));
        if is_missing {
            index.mark_lost(&run, now, "the node is missing")?;
        }
    }
    Ok(())
}
