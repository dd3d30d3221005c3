//! Reads what the broker does not have yet, and removes what it has.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use muster_files::replace_file;
use muster_wire::history::HistoryRecord;
use muster_wire::limits::MAX_HISTORY_BATCH_BYTES;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{FILE_MODE, HistoryJournal, SegmentHeader, list_segments, segment_path};
use crate::ground::shared::lock_mutex;

const DELIVERED_FILE: &str = "delivered.json";
/// JSON of records in one batch: half of what a reader accepts.
const BATCH_BYTES: usize = MAX_HISTORY_BATCH_BYTES / 2;
/// Longest line of a segment.
const MAX_LINE_BYTES: u64 = 64 * 1024;

/// The last record that the broker has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DeliveredPosition {
    pub(super) segment: Option<Uuid>,
    /// Where the next line begins.
    offset: u64,
}

impl DeliveredPosition {
    /// After a loss of the file, records are delivered again; the history knows their numbers.
    pub(super) fn load(directory: &Path) -> Self {
        let text = fs::read(directory.join(DELIVERED_FILE)).ok();
        text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
    }
}

/// Records of one segment that the broker does not have, in order.
#[derive(Debug)]
pub struct PendingRecords {
    pub segment: Uuid,
    pub previous: Option<Uuid>,
    pub records: Vec<HistoryRecord>,
    /// Where the line after each record begins.
    offsets: Vec<u64>,
}

impl HistoryJournal {
    /// The oldest records that the broker does not have; `None` if it has all. Blocks.
    pub fn read_pending(&self) -> io::Result<Option<PendingRecords>> {
        let Some(directory) = &self.directory else { return Ok(None) };
        loop {
            let (delivered, current) = {
                let state = lock_mutex(&self.state);
                (state.delivered, state.current.as_ref().map(|current| current.id))
            };
            let Some(oldest) = list_segments(directory)?.first().copied() else { return Ok(None) };
            let offset = if delivered.segment == Some(oldest) { delivered.offset } else { 0 };
            let pending = read_segment(directory, oldest, offset)?;
            match pending {
                Some(pending) => return Ok(Some(pending)),
                // The segment that is written stays, and is read on later.
                None if current == Some(oldest) => return Ok(None),
                None => fs::remove_file(segment_path(directory, oldest))?,
            }
        }
    }

    /// Notes that the broker has the first ones of these records.
    pub fn confirm(&self, pending: &PendingRecords, count: usize) {
        if let Some(offset) = pending.offsets.get(count.saturating_sub(1)) {
            let delivered = DeliveredPosition { segment: Some(pending.segment), offset: *offset };
            lock_mutex(&self.state).delivered = delivered;
        }
    }

    /// Stores what was confirmed. Records that were confirmed later are delivered again after a crash, and the history knows their numbers. Blocks.
    pub fn store_position(&self) -> io::Result<()> {
        let Some(directory) = &self.directory else { return Ok(()) };
        let delivered = lock_mutex(&self.state).delivered;
        let text = serde_json::to_vec(&delivered)?;
        replace_file(&directory.join(DELIVERED_FILE), &text, FILE_MODE)
    }
}

/// Reads complete lines from an offset; 0 is the beginning. `None` if there are no more. Lines that are no records were left by a failed write.
fn read_segment(
    directory: &Path,
    segment: Uuid,
    offset: u64,
) -> io::Result<Option<PendingRecords>> {
    let mut file = BufReader::new(File::open(segment_path(directory, segment))?);
    let mut line = Vec::new();
    let mut position = read_line(&mut file, &mut line)?;
    let header = serde_json::from_slice::<SegmentHeader>(&line).ok();
    let Some(header) = header.filter(|header| header.segment == segment) else {
        return Ok(None);
    };
    if offset > position {
        file.seek(SeekFrom::Start(offset))?;
        position = offset;
    }
    let mut pending = PendingRecords {
        segment,
        previous: header.previous,
        records: Vec::new(),
        offsets: Vec::new(),
    };
    let mut bytes = 0;
    while bytes < BATCH_BYTES {
        line.clear();
        let read = read_line(&mut file, &mut line)?;
        if !line.ends_with(b"\n") {
            break;
        }
        position += read;
        bytes += line.len();
        if let Ok(record) = serde_json::from_slice(&line) {
            pending.records.push(record);
            pending.offsets.push(position);
        }
    }
    Ok((!pending.records.is_empty()).then_some(pending))
}

fn read_line(file: &mut BufReader<File>, line: &mut Vec<u8>) -> io::Result<u64> {
    let read = file.take(MAX_LINE_BYTES).read_until(b'\n', line)?;
    Ok(u64::try_from(read).unwrap_or(u64::MAX))
}
