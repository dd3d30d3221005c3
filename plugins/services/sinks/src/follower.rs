//! One sink: reads what comes, and delivers what its filter admits.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_api::{ActionError, LogThrottle};
use muster_base::error_chain;
use muster_files::files::FileAccessError;
use muster_history::index::{HistoryIndex, IndexError};
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::sleep;

use crate::counts::EventSinkCounts;
use crate::delivery::EventDelivery;
use crate::event::SinkEvent;
use crate::event_filter::EventFilter;
use crate::position::{PositionFile, SinkPosition};
use crate::provision_queue::ProvisionQueue;
use crate::service::HistorySource;
use crate::span::{request_span, run_span};

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
    /// Whether it gets spans instead of events.
    pub(crate) has_spans: bool,
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
    last: SinkPosition,
    /// Rows and runs, also those that are no events for this sink.
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
                    source.index.count_taken_rows(position.get().rows).unwrap_or_default()
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

    /// What comes next; `None` if there is nothing.
    async fn read_page(
        &self,
        source: HistorySource,
        after: SinkPosition,
    ) -> Result<Option<HistoryPage>, SinkReadError> {
        let (filter, batch, has_spans) = (self.filter.clone(), self.batch, self.has_spans);
        let read = spawn_blocking(move || {
            let page = if has_spans {
                read_spans(&source.index, after, batch)?
            } else {
                read_events(&source.index, after, batch)?
            };
            if page.rows == 0 {
                return Ok(None);
            }
            let nodes = filter.select_nodes(&source.directory)?;
            let is_wanted = |event: &SinkEvent| filter.admits(event, nodes.as_ref());
            let events = page.events.into_iter().filter(is_wanted).collect();
            Ok(Some(HistoryPage { events, ..page }))
        });
        read.await?
    }
}

fn read_events(
    index: &HistoryIndex,
    after: SinkPosition,
    batch: usize,
) -> Result<HistoryPage, IndexError> {
    let rows = index.taken_rows(after.rows, batch)?;
    let last = rows.last().map_or(after.rows, |row| row.cursor);
    let events = rows.iter().filter_map(SinkEvent::of_row).collect();
    Ok(HistoryPage { events, last: SinkPosition { rows: last, ..after }, rows: rows.len() })
}

/// Runs from their own list, which has also those without changes.
fn read_spans(
    index: &HistoryIndex,
    after: SinkPosition,
    batch: usize,
) -> Result<HistoryPage, IndexError> {
    let rows = index.taken_rows(after.rows, batch)?;
    let runs = index.ended_runs(after.runs.as_ref(), batch)?;
    let mut events: Vec<SinkEvent> = rows.iter().filter_map(request_span).collect();
    for run in &runs {
        // One that was deleted meanwhile has no span.
        let Some((row, folded)) = index.report(&run.node, Some(&run.cursor.run))? else { continue };
        let trace = index.trace_of_run(&row.run)?;
        events.extend(run_span(&row, &folded, trace.as_deref()));
    }
    let last = SinkPosition {
        rows: rows.last().map_or(after.rows, |row| row.cursor),
        runs: runs.last().map(|run| run.cursor.clone()).or(after.runs),
    };
    Ok(HistoryPage { events, last, rows: rows.len() + runs.len() })
}
