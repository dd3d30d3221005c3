//! One sink: reads what comes, and delivers what its filter admits.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_api::{ActionError, LogThrottle};
use muster_base::error_chain;
use muster_files::files::FileAccessError;
use muster_history::index::{IndexError, RowCursor};
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::sleep;

use crate::counts::EventSinkCounts;
use crate::delivery::EventDelivery;
use crate::event::SinkEvent;
use crate::event_filter::EventFilter;
use crate::position::PositionFile;
use crate::provision_queue::ProvisionQueue;
use crate::service::HistorySource;

/// How often the sources are read.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How often events that wait are counted.
const COUNT_INTERVAL: Duration = Duration::from_secs(5);
/// Shortest time between two warnings.
const WARNING_INTERVAL: Duration = Duration::from_mins(10);

/// One sink.
#[derive(Debug)]
pub(crate) struct SinkFollower {
    pub(crate) name: String,
    pub(crate) filter: EventFilter,
    pub(crate) delivery: EventDelivery,
    pub(crate) queue: ProvisionQueue,
    /// With how far it was read.
    pub(crate) history: Option<(HistorySource, Arc<PositionFile>)>,
    pub(crate) counts: Arc<EventSinkCounts>,
    pub(crate) batch: usize,
}

/// Why a source was not read.
#[derive(Debug, thiserror::Error)]
enum SinkReadError {
    #[error(transparent)]
    Index(#[from] IndexError),
    #[error("cannot evaluate the filter")]
    Filter(#[from] ActionError),
    #[error(transparent)]
    File(#[from] FileAccessError),
    #[error("a task of the sink ended")]
    Task(#[from] JoinError),
}

/// What was read of the history.
struct HistoryPage {
    events: Vec<SinkEvent>,
    last: RowCursor,
    /// Rows, also those that are no events for this sink.
    rows: usize,
}

impl SinkFollower {
    pub(crate) async fn follow(&self) {
        let warnings = LogThrottle::new(WARNING_INTERVAL);
        loop {
            match self.deliver_next().await {
                // There may be more.
                Ok(rows) if rows > 0 => continue,
                Ok(_) => {}
                Err(error) => {
                    if let Some(more) = warnings.admit(Instant::now()) {
                        let (sink, problem) = (&self.name, error_chain(&error));
                        tracing::warn!(sink, problem, more, "a sink cannot go on; trying again");
                    }
                }
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Counts what waits, also while a delivery is repeated.
    pub(crate) async fn keep_counts(&self) {
        loop {
            let (queue, history) = (self.queue.clone(), self.history.clone());
            let counted = spawn_blocking(move || {
                let queued = queue.list_files().map_or(0, |files| files.len() as u64);
                let rows = history.map(|(source, position)| {
                    source.index.count_taken_rows(position.get()).unwrap_or_default()
                });
                queued + rows.unwrap_or_default()
            });
            self.counts.set_waiting(counted.await.unwrap_or_default());
            sleep(COUNT_INTERVAL).await;
        }
    }

    /// Delivers one batch of each source, and returns how many rows and files it has read.
    async fn deliver_next(&self) -> Result<usize, SinkReadError> {
        let queued = self.deliver_queued().await?;
        let Some((source, position)) = &self.history else { return Ok(queued) };
        let Some(page) = self.read_page(source.clone(), position.get()).await? else {
            return Ok(queued);
        };
        if !page.events.is_empty() {
            self.delivery.deliver(&page.events).await;
        }
        position.advance(page.last);
        if !page.events.is_empty() {
            // What is passed over is read again by the next daemon.
            let position = Arc::clone(position);
            spawn_blocking(move || position.store()).await??;
        }
        Ok(queued + page.rows)
    }

    /// Delivers events of the provisioner.
    async fn deliver_queued(&self) -> Result<usize, SinkReadError> {
        let (queue, batch) = (self.queue.clone(), self.batch);
        let queued = spawn_blocking(move || queue.read(batch)).await??;
        let (files, documents): (Vec<PathBuf>, Vec<_>) = queued.into_iter().unzip();
        let events = documents.into_iter().map(SinkEvent::of_provision);
        let events: Vec<_> = events.filter(|event| self.filter.admits(event, None)).collect();
        if !events.is_empty() {
            self.delivery.deliver(&events).await;
        }
        let count = files.len();
        spawn_blocking(move || ProvisionQueue::remove(&files)).await??;
        Ok(count)
    }

    /// The next rows; `None` if there are none.
    async fn read_page(
        &self,
        source: HistorySource,
        after: RowCursor,
    ) -> Result<Option<HistoryPage>, SinkReadError> {
        let (filter, batch) = (self.filter.clone(), self.batch);
        let read = spawn_blocking(move || {
            let rows = source.index.taken_rows(after, batch)?;
            let Some(last) = rows.last().map(|row| row.cursor) else { return Ok(None) };
            let nodes = filter.select_nodes(&source.directory)?;
            let events = rows.iter().filter_map(SinkEvent::of_row);
            let events = events.filter(|event| filter.admits(event, nodes.as_ref())).collect();
            Ok(Some(HistoryPage { events, last, rows: rows.len() }))
        });
        read.await?
    }
}
