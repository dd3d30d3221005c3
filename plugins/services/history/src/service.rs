//! Follows the bucket `HISTORY`, and keeps the index current.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant as StdInstant};

use muster_api::LogThrottle;
use muster_api::base::error_chain;
use muster_bus::{Bucket, BucketEntry, BucketError, BucketWatch, Bus};
use muster_directory::DirectoryContext;
use muster_wire::history::decompress_records;
use muster_wire::identity::Identity;
use muster_wire::sign::open_history;
use muster_wire::stores::HISTORY_BUCKET;
use muster_wire::token::TokenCache;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, MissedTickBehavior, interval, interval_at, sleep};
use tokio_util::sync::CancellationToken;

use crate::index::{HistoryIndex, IndexError, IngestedMessage, OpenedBatch};

/// Pause after an error of the broker or of the index.
const RETRY_DELAY: Duration = Duration::from_secs(2);
/// Messages that are stored together.
const SHARE_MESSAGES: usize = 256;
/// Shortest time between two log lines about refused messages.
const REFUSAL_INTERVAL: Duration = Duration::from_secs(10);
/// How often it is checked whether the bucket was created again.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How often old rows are deleted.
const DELETE_INTERVAL: Duration = Duration::from_hours(6);

/// One instance of the history.
pub struct HistoryService {
    bus: Bus,
    bucket: Bucket,
    index: Arc<HistoryIndex>,
    source: DirectoryContext,
    tokens: TokenCache,
    keep: Duration,
    progress: Arc<HistoryProgress>,
    /// A node can send invalid messages without limit.
    refusals: LogThrottle,
}

/// How far the index lags.
#[derive(Debug, Default)]
pub struct HistoryProgress {
    behind: AtomicU64,
}

impl HistoryProgress {
    /// Messages that the index does not have yet.
    pub fn behind(&self) -> u64 {
        self.behind.load(Ordering::Relaxed)
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
    /// `keep`: rows that are older are deleted.
    pub fn new(
        bus: Bus,
        index: Arc<HistoryIndex>,
        source: DirectoryContext,
        keep: Duration,
    ) -> Self {
        let bucket = bus.bucket(HISTORY_BUCKET.name);
        let (tokens, progress) = (TokenCache::default(), Arc::default());
        let refusals = LogThrottle::new(REFUSAL_INTERVAL);
        Self { bus, bucket, index, source, tokens, keep, progress, refusals }
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
        let revision = spawn_blocking(move || index.revision()).await??;
        let mut watch = self.bucket.retry_until_dropped().watch_after(revision).await?;
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
            spawn_blocking(move || index.ingest(&messages)).await??;
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

    async fn delete_old(&self) {
        let mut ticks = interval_at(Instant::now() + RETRY_DELAY, DELETE_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let keep = u64::try_from(self.keep.as_millis()).unwrap_or(u64::MAX);
            let before = (self.source.clock)().saturating_sub(keep);
            let index = Arc::clone(&self.index);
            match spawn_blocking(move || index.delete_before(before)).await {
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
