//! The audit log: one line of JSON for every decision, including denials, with its outcome; each line is chained to the previous one.
//!
//! Lines go through a bounded queue to a thread that owns the file, so that neither a slow disk nor hashing delays requests. Lines that do not fit
//! are counted, and the count is written, also after a restart; with `audit.fail_closed` the request is refused instead. An action that amounts to root
//! access starts when its record is in the file, unless `audit.fail_closed_root` is off. Messages of unauthenticated senders are counted,
//! not listed, so that a flood cannot fill the disk. A full file is rotated; logrotate may do this too: move the file away and call
//! [`AuditLog::reopen`]. Changes, refusals and reads have separate files. [`muster_wire::audit`] defines the chain and its verification.

mod files;
mod history_tap;
mod log;
mod loss;
mod options;
mod record;
mod refusals;
mod stream;
mod writer;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_wire::audit::AuditAnchor;

pub use history_tap::HistoryTap;
pub use options::AuditOptions;
pub use record::{ApprovalRecord, AuditRecord, AuditVerdict, RecordClass, ScheduleRecord};
use stream::AuditStream;
use writer::LogOperation;

use crate::config::AuditConfig;

const MAX_QUEUED_LINES: usize = 1024;
/// How long to wait for the thread on close: a disk that hangs must not keep the daemon from stopping.
const WRITER_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a decision is not recorded, or will not be.
#[derive(Debug, thiserror::Error)]
pub enum AuditLogError {
    /// The file cannot be opened, written or flushed.
    #[error("cannot write the audit log {}", path.display())]
    File { path: PathBuf, source: io::Error },
    /// The last write failed, and `audit.fail_closed` or `audit.fail_closed_root` requires the record.
    #[error("the audit log cannot be written ({0})")]
    Failing(String),
    /// The queue is full, and the record is required.
    #[error("{MAX_QUEUED_LINES} audit lines wait to be written")]
    Full,
    /// The record cannot be encoded as JSON. Does not happen with the types in use.
    #[error("cannot encode an audit record")]
    Encode(#[source] serde_json::Error),
    /// The thread did not reply in time, or has ended.
    #[error("the audit log writer does not respond")]
    Unresponsive,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditLogStatus {
    /// Records in the queue.
    pub waiting: usize,
    /// Records lost since the start.
    pub lost: u64,
    /// The last line; `None` before the first write.
    pub last: Option<AuditAnchor>,
    /// The error of the last write, if it failed.
    pub failing: Option<String>,
}

/// The audit log of a daemon. Changes, refusals and reads are three chained files that rotate separately. Callers can cause reads and refusals
/// without limit; separate files keep these from pushing the records of changes off the disk. Dropping the log writes all queued lines.
#[derive(Debug)]
pub struct AuditLog {
    fail_closed_root: bool,
    changes: AuditStream,
    /// `None` if the path is a pipe or a device, which then receives all records.
    secondary: Option<SecondaryStreams>,
}

#[derive(Debug)]
struct SecondaryStreams {
    refusals: AuditStream,
    reads: AuditStream,
}

impl AuditLog {
    /// Opens the files, creating them and their directory if needed, and starts the writer threads.
    pub fn open(options: AuditOptions) -> Result<Self, AuditLogError> {
        let is_special = options.path.metadata().is_ok_and(|metadata| !metadata.is_file());
        let open = |class| AuditStream::open(options.for_class(class));
        let mut secondary = None;
        if !is_special {
            let (refusals, reads) = (open(RecordClass::Refusal)?, open(RecordClass::Read)?);
            secondary = Some(SecondaryStreams { refusals, reads });
        }
        let fail_closed_root = options.settings.fail_closed_root;
        Ok(Self { fail_closed_root, changes: AuditStream::open(options)?, secondary })
    }

    /// Creates nothing.
    pub fn check(path: &Path, settings: &AuditConfig) -> Result<(), AuditLogError> {
        files::check_log(path, settings)
            .map_err(|source| AuditLogError::File { path: path.to_owned(), source })
    }

    /// Never waits. On error the caller must not act; errors occur only with `audit.fail_closed`.
    pub fn record_decision(&self, record: &AuditRecord) -> Result<(), AuditLogError> {
        self.stream_for(record.class).record_decision(record)
    }

    /// Records the start of an action. If it amounts to root access, returns when the record is in the file, unless `audit.fail_closed_root` is off. On error
    /// the caller must not act.
    pub async fn record_start(
        &self,
        record: &AuditRecord,
        is_root_access: bool,
    ) -> Result<(), AuditLogError> {
        let stream = self.stream_for(record.class);
        if is_root_access && self.fail_closed_root {
            return stream.record_and_wait(record).await;
        }
        stream.record_decision(record)
    }

    /// Counts a message of an unauthenticated sender. `reason` is a constant of the program; `claimed` is the unverified content of the message (a
    /// subject, a caller), and is truncated.
    pub fn count_refusal(&self, reason: &'static str, claimed: Option<&str>) {
        self.stream_for(RecordClass::Refusal).count_refusal(reason, claimed);
    }

    /// Records that were lost and are not yet counted in the log.
    pub fn lost_records(&self) -> u64 {
        self.streams().map(AuditStream::lost_records).sum()
    }

    /// Reopens the paths after logrotate moved files away. Waits for earlier lines; blocks.
    pub fn reopen(&self) -> Result<(), AuditLogError> {
        self.perform(LogOperation::Reopen)
    }

    /// Returns when everything recorded so far is on disk. Blocks.
    pub fn flush(&self) -> Result<(), AuditLogError> {
        self.perform(LogOperation::Flush)
    }

    /// Flushes and signs the log; no more records are expected. Blocks.
    pub fn seal(&self) -> Result<(), AuditLogError> {
        self.perform(LogOperation::Seal)
    }

    /// Sets a changed account token; the header of the next file contains it.
    pub fn set_account(&self, token: &str) {
        self.streams().for_each(|stream| stream.set_account(token));
    }

    /// The state of the log: sums over its files, and the last line of the file of changes.
    pub fn status(&self) -> AuditLogStatus {
        let mut total = self.changes.status();
        for status in self.streams().skip(1).map(AuditStream::status) {
            total.waiting += status.waiting;
            total.lost += status.lost;
            total.failing = total.failing.or(status.failing);
        }
        total
    }

    /// The last line of each file, by the name of its class.
    pub fn last_anchors(&self) -> Vec<(&'static str, AuditAnchor)> {
        let names = ["changes", "refusals", "reads"];
        let last = |(name, stream): (_, &AuditStream)| Some((name, stream.status().last?));
        names.into_iter().zip(self.streams()).filter_map(last).collect()
    }

    /// Performs the operation on every file, even if one fails; returns the first error.
    fn perform(&self, operation: LogOperation) -> Result<(), AuditLogError> {
        self.streams().map(|stream| stream.perform(operation)).fold(Ok(()), Result::and)
    }

    fn stream_for(&self, class: RecordClass) -> &AuditStream {
        match (&self.secondary, class) {
            (None, _) | (_, RecordClass::Change) => &self.changes,
            (Some(secondary), RecordClass::Refusal) => &secondary.refusals,
            (Some(secondary), RecordClass::Read) => &secondary.reads,
        }
    }

    fn streams(&self) -> impl Iterator<Item = &AuditStream> {
        let secondary = self.secondary.iter();
        let secondary = secondary.flat_map(|secondary| [&secondary.refusals, &secondary.reads]);
        std::iter::once(&self.changes).chain(secondary)
    }
}

#[cfg(test)]
mod tests;
