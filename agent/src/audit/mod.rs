//! The audit log: a line of JSON for every decision, denials too, with its outcome; each line chained to the one before.
//!
//! Lines go through a bounded queue to a thread that owns the file, so that neither a slow disk nor hashing holds up
//! requests. What does not fit is counted, and the count is written; with `audit.fail_closed` the request is refused
//! instead. Messages that no caller vouches for are counted, not listed, so that a flood cannot fill the disk. A file that
//! is full is put aside; logrotate may do it as well: move the file away and call [`AuditLog::reopen`]. What the chain is
//! and how it is verified is [`muster_wire::audit`]'s.

mod files;
mod log;
mod record;
mod refusals;
mod writer;

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use muster_wire::Millis;
use muster_wire::audit::Anchor;
use muster_wire::sign::Signer;

use log::Log;
pub use record::{Approval, Outcome, Record};
use refusals::Refusals;
use writer::{Order, Writer};

/// Lines that may wait for the disk.
const QUEUE: usize = 1024;
/// How long the thread is waited for: a disk that hangs must not keep the daemon from stopping.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why a decision is not, or will not be, on record.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
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
    #[error("the audit log is {QUEUE} lines behind, so nothing may be done")]
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
pub struct Options {
    /// The file.
    pub path: PathBuf,
    /// Whether [`AuditLog::record`] fails where the record would be lost.
    pub fail_closed: bool,
    /// The size at which a file is put aside and a new one begun; 0 for never.
    pub max_bytes: u64,
    /// How many files that were put aside are kept; at least 1.
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

impl Options {
    /// The log of this node at this path: closed to others, signed every minute, a gigabyte in ten files at most.
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
pub struct Condition {
    /// Records that wait for the disk.
    pub waiting: usize,
    /// Records that were lost since the start.
    pub lost: u64,
    /// The last line; nothing before the first was written.
    pub last: Option<Anchor>,
    /// Why the last write failed, if it did.
    pub failing: Option<String>,
}

/// The door to the log. Dropping it writes what waits, and takes five seconds at most.
#[derive(Debug)]
pub struct AuditLog {
    path: PathBuf,
    fail_closed: bool,
    /// Unbounded, so that orders always get through; lines are bounded by [`Shared::waiting`].
    orders: Option<Sender<Order>>,
    /// Closed when the thread has ended.
    ended: Mutex<Receiver<()>>,
    shared: Arc<Shared>,
}

/// What the door and the thread both look at.
#[derive(Debug, Default)]
struct Shared {
    refusals: Mutex<Refusals>,
    /// Lines in the queue, and the one that is being written.
    waiting: AtomicUsize,
    /// Lost, and not yet told in the log.
    lost: AtomicU64,
    /// Lost since the start.
    lost_ever: AtomicU64,
    failing: Mutex<Option<String>>,
    /// An account's token that the thread has not seen yet.
    account: Mutex<Option<String>>,
    last: Mutex<Option<Anchor>>,
}

impl AuditLog {
    /// Opens the log, made if need be with its directory, and starts the thread that writes it.
    pub fn open(options: Options) -> Result<Self, AuditError> {
        let (path, fail_closed) = (options.path.clone(), options.fail_closed);
        let file_error = |source| AuditError::File {
            path: path.clone(),
            source,
        };
        let log = Log::open(options).map_err(file_error)?;
        let shared = Arc::new(Shared::default());
        shared.set_last(log.last());
        let writer = Writer {
            log,
            shared: Arc::clone(&shared),
        };
        let (orders, inbox) = channel();
        let (end, ended) = channel();
        let work = move || {
            writer.run(&inbox);
            drop(end);
        };
        let thread = thread::Builder::new().name("audit".to_owned());
        thread.spawn(work).map_err(file_error)?;
        Ok(Self {
            path,
            fail_closed,
            orders: Some(orders),
            ended: Mutex::new(ended),
            shared,
        })
    }

    /// Records a decision. Never waits. An error means: do not act; there is one only when failing closed.
    pub fn record(&self, record: &Record) -> Result<(), AuditError> {
        let line = record::line(record).map_err(AuditError::Encode)?;
        let sent = self.send(line);
        match self.shared.failing() {
            _ if !self.fail_closed => Ok(()),
            Some(said) => Err(AuditError::Failing(said)),
            None => sent,
        }
    }

    /// Counts a message without a caller to believe. `reason` is a word of the program's own; `claimed` is what the
    /// message says of itself (a subject, a caller), and is cut.
    pub fn refuse(&self, reason: &'static str, claimed: Option<&str>) {
        let told = {
            let mut refusals = self
                .shared
                .refusals
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            refusals.note(Instant::now(), wall_clock(), reason, claimed)
        };
        for refusal in told {
            if let Ok(line) = record::line(&refusal) {
                // What does not fit was counted as lost.
                let _ = self.send(line);
            }
        }
    }

    fn send(&self, line: Vec<u8>) -> Result<(), AuditError> {
        let sent = if self.shared.take_place() {
            let orders = self.orders.as_ref().ok_or(AuditError::Stuck);
            orders.and_then(|orders| {
                orders
                    .send(Order::Write(line))
                    .map_err(|_| AuditError::Stuck)
            })
        } else {
            Err(AuditError::Full)
        };
        if sent.is_err() {
            self.shared.add_lost(1);
        }
        sent
    }

    /// Records that were lost and are not yet counted in the log.
    pub fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::Acquire)
    }

    /// Opens the path again, after logrotate moved the file away. Waits for the lines before; blocks.
    pub fn reopen(&self) -> Result<(), AuditError> {
        self.ask(Order::Reopen)
    }

    /// Returns when everything recorded so far is on the disk. Blocks.
    pub fn flush(&self) -> Result<(), AuditError> {
        self.ask(Order::Flush)
    }

    /// The same, and signed: nothing more is expected. Blocks.
    pub fn seal(&self) -> Result<(), AuditError> {
        self.ask(Order::Seal)
    }

    /// The account's token changed; the next file's header has this one.
    pub fn account_changed(&self, token: &str) {
        *lock(&self.shared.account) = Some(token.to_owned());
    }

    /// How the log is doing.
    pub fn condition(&self) -> Condition {
        Condition {
            waiting: self.shared.waiting.load(Ordering::Relaxed),
            lost: self.shared.lost_ever.load(Ordering::Relaxed),
            last: *lock(&self.shared.last),
            failing: self.shared.failing(),
        }
    }

    fn ask(
        &self,
        order: impl FnOnce(SyncSender<io::Result<()>>) -> Order,
    ) -> Result<(), AuditError> {
        let (answer, answered) = sync_channel(1);
        let orders = self.orders.as_ref().ok_or(AuditError::Stuck)?;
        orders.send(order(answer)).map_err(|_| AuditError::Stuck)?;
        let result = answered
            .recv_timeout(PATIENCE)
            .map_err(|_| AuditError::Stuck)?;
        result.map_err(|source| AuditError::File {
            path: self.path.clone(),
            source,
        })
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        drop(self.orders.take());
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        if ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            let path = self.path.display();
            tracing::error!(%path, "the audit log's disk does not answer; its last lines may be lost");
        }
    }
}

impl Shared {
    /// Takes a place in the queue, if there is one.
    fn take_place(&self) -> bool {
        let taken = |waiting: usize| (waiting < QUEUE).then_some(waiting + 1);
        self.waiting
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, taken)
            .is_ok()
    }

    /// Gives places back, when their lines are written.
    fn give_places(&self, count: usize) {
        self.waiting.fetch_sub(count, Ordering::AcqRel);
    }

    fn add_lost(&self, count: u64) {
        self.lost_ever.fetch_add(count, Ordering::Relaxed);
        self.restore_lost(count);
    }

    /// They are still not told.
    fn restore_lost(&self, count: u64) {
        self.lost.fetch_add(count, Ordering::AcqRel);
    }

    fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::AcqRel)
    }

    fn set_failing(&self, said: Option<String>) {
        *lock(&self.failing) = said;
    }

    fn failing(&self) -> Option<String> {
        lock(&self.failing).clone()
    }

    fn take_account(&self) -> Option<String> {
        lock(&self.account).take()
    }

    fn set_last(&self, last: Option<Anchor>) {
        *lock(&self.last) = last;
    }
}

/// What the mutex guards is a value that is replaced as a whole: whoever panicked did not leave it half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
