//! The audit log: a line of JSON for every decision, denials too, with its outcome; each line chained to the one before.
//!
//! Lines go through a bounded queue to a thread that owns the file, so that neither a slow disk nor hashing holds up
//! requests. What does not fit is counted, and the count is written; with `audit.fail_closed` the request is refused
//! instead. Messages that no caller vouches for are counted, not listed, so that a flood cannot fill the disk. A file that
//! is full is put aside; logrotate may do it as well: move the file away and call [`AuditLog::reopen`]. Changes, refusals and reads are
//! files of their own. What a chain is and how it is verified is [`muster_wire::audit`]'s.

mod files;
mod log;
mod record;
mod refusals;
mod stream;
mod writer;

use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use muster_wire::Millis;
use muster_wire::audit::AuditAnchor;
use muster_wire::sign::Signer;

pub use record::{ApprovalRecord, AuditRecord, AuditVerdict, RecordClass};
use stream::AuditStream;

/// Lines that may wait for the disk.
const MAX_QUEUED_LINES: usize = 1024;
/// How long the thread is waited for: a disk that hangs must not keep the daemon from stopping.
const WRITER_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a decision is not, or will not be, on record.
#[derive(Debug, thiserror::Error)]
pub enum AuditLogError {
    /// The file cannot be opened, written or flushed.
    #[error("cannot write the audit log {}", path.display())]
    File {
        /// The log.
        path: PathBuf,
        /// The system's word.
        #[source]
        source: io::Error,
    },
    /// The last write failed, and `audit.fail_closed` is set.
    #[error("the audit log cannot be written ({0}), so nothing may be done")]
    Failing(String),
    /// More lines wait than may, and `audit.fail_closed` is set.
    #[error("the audit log is {MAX_QUEUED_LINES} lines behind, so nothing may be done")]
    Full,
    /// The record is not JSON, which cannot be.
    #[error("cannot encode an audit record")]
    Encode(#[source] serde_json::Error),
    /// The thread did not answer in time, or is gone.
    #[error("the audit log's writer does not answer")]
    Stuck,
}

/// What the log is, and whose.
#[derive(Debug, Clone)]
pub struct AuditOptions {
    /// The file of changes. Those of refusals and reads stand beside it: `audit-refusals.log` and `audit-reads.log`.
    pub path: PathBuf,
    /// Whether [`AuditLog::record_decision`] fails where the record would be lost.
    pub fail_closed: bool,
    /// The size at which a file is put aside and a new one begun; 0 for never. Counted for each of the three files by itself.
    pub max_bytes: u64,
    /// How many files that were put aside are kept of each; at least 1.
    pub keep: u32,
    /// The permission bits of a new file.
    pub mode: u32,
    /// The group of a new file; the process's own when absent.
    pub group: Option<String>,
    /// Lines after which a checkpoint is signed.
    pub checkpoint_lines: u64,
    /// Time after which lines are signed, however few.
    pub checkpoint_every: Duration,
    /// Where the last checkpoint is remembered outside of the log, so that a log that was cut short is noticed.
    pub head: Option<PathBuf>,
    /// Whose log it is, and who signs.
    pub signer: Signer,
    /// The account's token, which vouches for the signer's.
    pub account: String,
}

impl AuditOptions {
    /// The log of this node at this path: closed to others, signed every minute, for each class a gigabyte in ten files at most.
    pub fn new(path: PathBuf, signer: Signer, account: String) -> Self {
        Self {
            path,
            fail_closed: false,
            max_bytes: 100 * 1024 * 1024,
            keep: 10,
            mode: 0o640,
            group: None,
            checkpoint_lines: 1000,
            checkpoint_every: Duration::from_mins(1),
            head: None,
            signer,
            account,
        }
    }
}

/// How the log is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditLogStatus {
    /// Records that wait for the disk.
    pub waiting: usize,
    /// Records that were lost since the start.
    pub lost: u64,
    /// The last line; nothing before the first was written.
    pub last: Option<AuditAnchor>,
    /// Why the last write failed, if it did.
    pub failing: Option<String>,
}

/// The audit log of a daemon. Changes, refusals and reads are three chained files that turn over each by itself: neither reading nor being
/// refused, which callers can do without end, makes the records of changes leave the disk. Dropping it writes what waits.
#[derive(Debug)]
pub struct AuditLog {
    changes: AuditStream,
    /// Nothing where the path is a pipe or a device, which then takes all records.
    others: Option<SecondaryStreams>,
}

#[derive(Debug)]
struct SecondaryStreams {
    refusals: AuditStream,
    reads: AuditStream,
}

impl AuditLog {
    /// Opens the files, made if need be with their directory, and starts the threads that write them.
    pub fn open(options: AuditOptions) -> Result<Self, AuditLogError> {
        let is_special = options.path.metadata().is_ok_and(|found| !found.is_file());
        let open = |class| AuditStream::open(options.for_class(class));
        let others = if is_special {
            None
        } else {
            Some(SecondaryStreams {
                refusals: open(RecordClass::Refusal)?,
                reads: open(RecordClass::Read)?,
            })
        };
        Ok(Self {
            changes: AuditStream::open(options)?,
            others,
        })
    }

    /// Records a decision. Never waits. An error means: do not act; there is one only when failing closed.
    pub fn record_decision(&self, record: &AuditRecord) -> Result<(), AuditLogError> {
        self.stream_for(record.class).record_decision(record)
    }

    /// Counts a message without a caller to believe. `reason` is a word of the program's own; `claimed` is what the
    /// message says of itself (a subject, a caller), and is cut.
    pub fn count_refusal(&self, reason: &'static str, claimed: Option<&str>) {
        self.stream_for(RecordClass::Refusal)
            .count_refusal(reason, claimed);
    }

    /// Records that were lost and are not yet counted in the log.
    pub fn lost_records(&self) -> u64 {
        self.streams().map(AuditStream::lost_records).sum()
    }

    /// Opens the paths again, after logrotate moved files away. Waits for the lines before; blocks.
    pub fn reopen(&self) -> Result<(), AuditLogError> {
        self.for_each_stream(AuditStream::reopen)
    }

    /// Returns when everything recorded so far is on the disk. Blocks.
    pub fn flush(&self) -> Result<(), AuditLogError> {
        self.for_each_stream(AuditStream::flush)
    }

    /// The same, and signed: nothing more is expected. Blocks.
    pub fn seal(&self) -> Result<(), AuditLogError> {
        self.for_each_stream(AuditStream::seal)
    }

    /// The account's token changed; the next file's header has this one.
    pub fn set_account(&self, token: &str) {
        self.streams().for_each(|stream| stream.set_account(token));
    }

    /// How the log is doing: the sums over its files, and the last line of the file of changes.
    pub fn status(&self) -> AuditLogStatus {
        let mut whole = self.changes.status();
        for condition in self.streams().skip(1).map(AuditStream::status) {
            whole.waiting += condition.waiting;
            whole.lost += condition.lost;
            whole.failing = whole.failing.or(condition.failing);
        }
        whole
    }

    /// The last line of each file, by the word for its class.
    pub fn last_anchors(&self) -> Vec<(&'static str, AuditAnchor)> {
        let words = ["changes", "refusals", "reads"];
        let last = |(word, stream): (_, &AuditStream)| Some((word, stream.status().last?));
        words
            .into_iter()
            .zip(self.streams())
            .filter_map(last)
            .collect()
    }

    /// Does it with every file, also if one fails; the first error is told.
    fn for_each_stream(
        &self,
        work: fn(&AuditStream) -> Result<(), AuditLogError>,
    ) -> Result<(), AuditLogError> {
        self.streams().map(work).fold(Ok(()), Result::and)
    }

    fn stream_for(&self, class: RecordClass) -> &AuditStream {
        match (&self.others, class) {
            (None, _) | (_, RecordClass::Change) => &self.changes,
            (Some(others), RecordClass::Refusal) => &others.refusals,
            (Some(others), RecordClass::Read) => &others.reads,
        }
    }

    fn streams(&self) -> impl Iterator<Item = &AuditStream> {
        let others = self.others.iter();
        let others = others.flat_map(|others| [&others.refusals, &others.reads]);
        std::iter::once(&self.changes).chain(others)
    }
}

impl AuditOptions {
    /// The options of the file of one class.
    fn for_class(&self, class: RecordClass) -> Self {
        Self {
            path: class.class_path(&self.path),
            head: self.head.as_deref().map(|head| class.class_path(head)),
            ..self.clone()
        }
    }
}

/// Now, by the node's clock; the epoch for a clock before it.
fn wall_clock() -> Millis {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
