//! The journal of what happened on the node, for the fleet's history: records stay on disk until the broker has them.
//!
//! A segment is a file of JSON lines: a header, then records numbered from 1. A new one begins with each daemon and after a megabyte. Records that could not
//! be written have numbers too, in the segment or at the beginning of the next one, so that the loss shows. Old segments are removed beyond a bound, which shows
//! because each names the one before.

mod read;

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use muster_api::HistorySink;
use muster_base::unix_millis_now;
use muster_files::replace_file;
use muster_wire::history::{HistoryEvent, HistoryRecord};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use uuid::Uuid;

use crate::ground::shared::lock_mutex;

pub use read::PendingRecords;

const SEGMENT_BYTES: u64 = 1024 * 1024;
/// Segments that wait for the broker: about a day of runs of a node with 1,000 resources, much more of others.
const MAX_SEGMENTS: usize = 32;
const SEGMENT_SUFFIX: &str = "jsonl";
/// The runs of this process that have begun and not ended.
const OPEN_RUNS_FILE: &str = "open-runs.json";
const FILE_MODE: u32 = 0o600;

/// The first line of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct SegmentHeader {
    segment: Uuid,
    previous: Option<Uuid>,
}

/// The journal. Without a directory, and while the fleet has no history, nothing is recorded.
#[derive(Debug, Default)]
pub struct HistoryJournal {
    directory: Option<PathBuf>,
    is_wanted: AtomicBool,
    state: Mutex<JournalState>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct JournalState {
    current: Option<OpenSegment>,
    /// The newest segment of this node.
    newest: Option<Uuid>,
    open_runs: BTreeSet<Uuid>,
    /// Records that could not be written since the last one that was.
    lost: u64,
    /// How far the broker has the oldest segment.
    delivered: read::DeliveredPosition,
}

#[derive(Debug)]
struct OpenSegment {
    id: Uuid,
    file: File,
    next_seq: u64,
    bytes: u64,
    /// The last write failed, and may have left a part of a line.
    is_torn: bool,
}

impl HistoryJournal {
    /// A journal that records nothing.
    pub fn disabled() -> Self {
        Self::default()
    }

    /// The journal in this directory, which is created. Runs that an earlier daemon left open were cut off with it.
    pub fn open(directory: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let delivered = read::DeliveredPosition::load(directory);
        let newest = list_segments(directory)?.last().copied().or(delivered.segment);
        let open_runs = fs::read(directory.join(OPEN_RUNS_FILE)).ok();
        let open_runs: BTreeSet<Uuid> =
            open_runs.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        let journal = Self {
            directory: Some(directory.to_owned()),
            is_wanted: AtomicBool::new(!open_runs.is_empty()),
            state: Mutex::new(JournalState {
                newest,
                open_runs: open_runs.clone(),
                delivered,
                ..JournalState::default()
            }),
            changed: Notify::new(),
        };
        for run in open_runs {
            let reason = "the daemon or the machine ended during the run".to_owned();
            journal.record(None, HistoryEvent::Aborted { run, reason });
        }
        Ok(journal)
    }

    /// Whether the fleet has a history. Before it has one, records would only fill the disk.
    pub fn set_wanted(&self, is_wanted: bool) {
        self.is_wanted.store(is_wanted, Ordering::Relaxed);
    }

    /// Waits for a record. One that was written since the last call counts.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }
}

impl HistorySink for HistoryJournal {
    fn is_wanted(&self) -> bool {
        self.directory.is_some() && self.is_wanted.load(Ordering::Relaxed)
    }

    fn record(&self, number: Option<u64>, event: HistoryEvent) {
        let Some(directory) = self.directory.as_deref().filter(|_| self.is_wanted()) else {
            return;
        };
        let event = event.shortened();
        let mut state = lock_mutex(&self.state);
        state.note_run(&event, directory);
        match state.write(directory, number, event) {
            Ok(()) => state.lost = 0,
            Err(error) => {
                state.lost += 1;
                let (directory, lost) = (directory.display(), state.lost);
                tracing::error!(%error, %directory, lost, "cannot record what happened for the history");
            }
        }
        drop(state);
        self.changed.notify_one();
    }
}

impl JournalState {
    fn note_run(&mut self, event: &HistoryEvent, directory: &Path) {
        let is_changed = match event {
            HistoryEvent::Start { run, cause, .. } if !cause.outlives_daemon() => {
                self.open_runs.insert(*run)
            }
            HistoryEvent::End { run, .. } | HistoryEvent::Aborted { run, .. } => {
                self.open_runs.remove(run)
            }
            _ => false,
        };
        if is_changed {
            let stored = serde_json::to_vec(&self.open_runs).map_err(io::Error::other);
            let stored = stored
                .and_then(|text| replace_file(&directory.join(OPEN_RUNS_FILE), &text, FILE_MODE));
            if let Err(error) = stored {
                tracing::warn!(%error, "cannot store which runs have begun");
            }
        }
    }

    fn write(
        &mut self,
        directory: &Path,
        number: Option<u64>,
        event: HistoryEvent,
    ) -> io::Result<()> {
        if self.current.as_ref().is_none_or(|current| current.bytes > SEGMENT_BYTES) {
            self.begin_segment(directory)?;
        }
        let Some(current) = &mut self.current else { return Ok(()) };
        let (seq, time) = (current.next_seq, unix_millis_now());
        let record = HistoryRecord { seq, time, number, event };
        current.next_seq += 1;
        let mut line = if current.is_torn { vec![b'\n'] } else { Vec::new() };
        serde_json::to_writer(&mut line, &record)?;
        line.push(b'\n');
        let written = current.file.write_all(&line);
        current.is_torn = written.is_err();
        current.bytes += u64::try_from(line.len()).unwrap_or(u64::MAX);
        written
    }

    fn begin_segment(&mut self, directory: &Path) -> io::Result<()> {
        let header = SegmentHeader { segment: Uuid::now_v7(), previous: self.newest };
        let path = segment_path(directory, header.segment);
        let mut file =
            OpenOptions::new().append(true).create_new(true).mode(FILE_MODE).open(&path)?;
        let mut line = serde_json::to_vec(&header)?;
        line.push(b'\n');
        if let Err(error) = file.write_all(&line) {
            // A segment without a header could not be read.
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        self.newest = Some(header.segment);
        let (id, next_seq) = (header.segment, self.lost + 1);
        self.current = Some(OpenSegment { id, file, next_seq, bytes: 0, is_torn: false });
        let segments = list_segments(directory)?;
        for surplus in segments.iter().take(segments.len().saturating_sub(MAX_SEGMENTS)) {
            tracing::warn!(segment = %surplus, "the history was not delivered for too long; its oldest records are removed");
            fs::remove_file(segment_path(directory, *surplus))?;
        }
        Ok(())
    }
}

fn segment_path(directory: &Path, segment: Uuid) -> PathBuf {
    directory.join(format!("{segment}.{SEGMENT_SUFFIX}"))
}

/// The segments of the directory, oldest first: ids begin with the time.
fn list_segments(directory: &Path) -> io::Result<Vec<Uuid>> {
    let mut segments = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let id =
            name.to_str().and_then(|name| name.strip_suffix(SEGMENT_SUFFIX)?.strip_suffix('.'));
        segments.extend(id.and_then(|id| Uuid::try_parse(id).ok()));
    }
    segments.sort_unstable();
    Ok(segments)
}

#[cfg(test)]
mod tests;
