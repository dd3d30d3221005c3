//! One chained log with the thread that writes it: lines go through a bounded queue, so that neither a slow disk nor hashing holds up
//! requests. Which records go to which log is `mod.rs`'s.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use muster_wire::audit::Anchor;

use super::log::Log;
use super::record::{self, Record};
use super::refusals::Refusals;
use super::writer::{Order, Writer};
use super::{AuditError, Condition, Options, PATIENCE, QUEUE, wall_clock};

/// The door to the log. Dropping it writes what waits, and takes five seconds at most.
#[derive(Debug)]
pub(super) struct AuditStream {
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
pub(super) struct Shared {
    pub(super) refusals: Mutex<Refusals>,
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

impl AuditStream {
    /// Opens the log, made if need be with its directory, and starts the thread that writes it.
    pub(super) fn open(options: Options) -> Result<Self, AuditError> {
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
    pub(super) fn record(&self, record: &Record) -> Result<(), AuditError> {
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
    pub(super) fn refuse(&self, reason: &'static str, claimed: Option<&str>) {
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
    pub(super) fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::Acquire)
    }

    /// Opens the path again, after logrotate moved the file away. Waits for the lines before; blocks.
    pub(super) fn reopen(&self) -> Result<(), AuditError> {
        self.ask(Order::Reopen)
    }

    /// Returns when everything recorded so far is on the disk. Blocks.
    pub(super) fn flush(&self) -> Result<(), AuditError> {
        self.ask(Order::Flush)
    }

    /// The same, and signed: nothing more is expected. Blocks.
    pub(super) fn seal(&self) -> Result<(), AuditError> {
        self.ask(Order::Seal)
    }

    /// The account's token changed; the next file's header has this one.
    pub(super) fn account_changed(&self, token: &str) {
        *lock(&self.shared.account) = Some(token.to_owned());
    }

    /// How the log is doing.
    pub(super) fn condition(&self) -> Condition {
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

impl Drop for AuditStream {
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
    pub(super) fn take_place(&self) -> bool {
        let taken = |waiting: usize| (waiting < QUEUE).then_some(waiting + 1);
        self.waiting
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, taken)
            .is_ok()
    }

    /// Gives places back, when their lines are written.
    pub(super) fn give_places(&self, count: usize) {
        self.waiting.fetch_sub(count, Ordering::AcqRel);
    }

    pub(super) fn add_lost(&self, count: u64) {
        self.lost_ever.fetch_add(count, Ordering::Relaxed);
        self.restore_lost(count);
    }

    /// They are still not told.
    pub(super) fn restore_lost(&self, count: u64) {
        self.lost.fetch_add(count, Ordering::AcqRel);
    }

    pub(super) fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::AcqRel)
    }

    pub(super) fn set_failing(&self, said: Option<String>) {
        *lock(&self.failing) = said;
    }

    pub(super) fn failing(&self) -> Option<String> {
        lock(&self.failing).clone()
    }

    pub(super) fn take_account(&self) -> Option<String> {
        lock(&self.account).take()
    }

    pub(super) fn set_last(&self, last: Option<Anchor>) {
        *lock(&self.last) = last;
    }
}

/// What the mutex guards is a value that is replaced as a whole: whoever panicked did not leave it half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
