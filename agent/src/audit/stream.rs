//! One chained log with its writer thread: lines go through a bounded queue, so that neither a slow disk nor hashing delays requests. `mod.rs`
//! decides which records go to which log.

use muster_base::unix_millis_now;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use muster_audit::AuditAnchor;

use super::log::ChainedLog;
use super::record::{self, AuditRecord};
use super::refusals::RefusalWindows;
use super::writer::{AuditWriter, WriterCommand};
use super::{AuditLogError, AuditLogStatus, AuditOptions, MAX_QUEUED_LINES, WRITER_TIMEOUT};

/// The handle of the log. Dropping it writes the queued lines, and takes at most five seconds.
#[derive(Debug)]
pub(super) struct AuditStream {
    path: PathBuf,
    fail_closed: bool,
    /// Unbounded, so that commands are never rejected; lines are bounded by [`AuditStreamState::waiting`].
    commands: Option<Sender<WriterCommand>>,
    /// Closed when the thread has ended.
    ended: Mutex<Receiver<()>>,
    shared: Arc<AuditStreamState>,
}

/// The state shared by the handle and the thread.
#[derive(Debug, Default)]
pub(super) struct AuditStreamState {
    pub(super) refusals: Mutex<RefusalWindows>,
    /// Lines in the queue, including the one that is being written.
    waiting: AtomicUsize,
    /// Lost records that the log does not count yet.
    lost: AtomicU64,
    /// Records lost since the start.
    lost_ever: AtomicU64,
    failing: Mutex<Option<String>>,
    /// An account token that the thread has not read yet.
    account: Mutex<Option<String>>,
    last: Mutex<Option<AuditAnchor>>,
}

impl AuditStream {
    /// Opens the log, creating it and its directory if needed, and starts the writer thread.
    pub(super) fn open(options: AuditOptions) -> Result<Self, AuditLogError> {
        let (path, fail_closed) = (options.path.clone(), options.fail_closed);
        let file_error = |source| AuditLogError::File { path: path.clone(), source };
        let log = ChainedLog::open(options).map_err(file_error)?;
        let shared = Arc::new(AuditStreamState::default());
        shared.set_last_anchor(log.last_anchor());
        let writer = AuditWriter { log, shared: Arc::clone(&shared) };
        let (commands, receiver) = channel();
        let (ended_tx, ended) = channel();
        let work = move || {
            writer.run(&receiver);
            drop(ended_tx);
        };
        let thread = thread::Builder::new().name("audit".to_owned());
        thread.spawn(work).map_err(file_error)?;
        Ok(Self { path, fail_closed, commands: Some(commands), ended: Mutex::new(ended), shared })
    }

    /// Records a decision. Never waits. On error the caller must not act; errors occur only with `audit.fail_closed`.
    pub(super) fn record_decision(&self, record: &AuditRecord) -> Result<(), AuditLogError> {
        let line = record::encode_line(record).map_err(AuditLogError::Encode)?;
        let sent = self.send_line(line);
        match self.shared.last_error() {
            _ if !self.fail_closed => Ok(()),
            Some(error) => Err(AuditLogError::Failing(error)),
            None => sent,
        }
    }

    /// Counts a message of an unauthenticated sender. `reason` is a constant of the program; `claimed` is the unverified content of the message (a
    /// subject, a caller), and is truncated.
    pub(super) fn count_refusal(&self, reason: &'static str, claimed: Option<&str>) {
        let records = {
            let mut refusals = self.shared.refusals.lock().unwrap_or_else(PoisonError::into_inner);
            refusals.add_refusal(Instant::now(), unix_millis_now(), reason, claimed)
        };
        for refusal in records {
            if let Ok(line) = record::encode_line(&refusal) {
                // A line that does not fit was counted as lost.
                let _ = self.send_line(line);
            }
        }
    }

    fn send_line(&self, line: Vec<u8>) -> Result<(), AuditLogError> {
        let sent = if self.shared.reserve_place() {
            let commands = self.commands.as_ref().ok_or(AuditLogError::Unresponsive);
            commands.and_then(|commands| {
                commands.send(WriterCommand::Write(line)).map_err(|_| AuditLogError::Unresponsive)
            })
        } else {
            Err(AuditLogError::Full)
        };
        if sent.is_err() {
            self.shared.add_lost(1);
        }
        sent
    }

    /// Records that were lost and are not yet counted in the log.
    pub(super) fn lost_records(&self) -> u64 {
        self.shared.lost.load(Ordering::Acquire)
    }

    /// Reopens the path after logrotate moved the file away. Waits for earlier lines; blocks.
    pub(super) fn reopen(&self) -> Result<(), AuditLogError> {
        self.send_command(WriterCommand::Reopen)
    }

    /// Returns when everything recorded so far is on disk. Blocks.
    pub(super) fn flush(&self) -> Result<(), AuditLogError> {
        self.send_command(WriterCommand::Flush)
    }

    /// Flushes and signs the log; no more records are expected. Blocks.
    pub(super) fn seal(&self) -> Result<(), AuditLogError> {
        self.send_command(WriterCommand::Seal)
    }

    /// Sets a changed account token; the header of the next file contains it.
    pub(super) fn set_account(&self, token: &str) {
        *lock_mutex(&self.shared.account) = Some(token.to_owned());
    }

    /// The state of the log.
    pub(super) fn status(&self) -> AuditLogStatus {
        AuditLogStatus {
            waiting: self.shared.waiting.load(Ordering::Relaxed),
            lost: self.shared.lost_ever.load(Ordering::Relaxed),
            last: *lock_mutex(&self.shared.last),
            failing: self.shared.last_error(),
        }
    }

    fn send_command(
        &self,
        command: impl FnOnce(SyncSender<io::Result<()>>) -> WriterCommand,
    ) -> Result<(), AuditLogError> {
        let (reply, replies) = sync_channel(1);
        let commands = self.commands.as_ref().ok_or(AuditLogError::Unresponsive)?;
        commands.send(command(reply)).map_err(|_| AuditLogError::Unresponsive)?;
        let result =
            replies.recv_timeout(WRITER_TIMEOUT).map_err(|_| AuditLogError::Unresponsive)?;
        result.map_err(|source| AuditLogError::File { path: self.path.clone(), source })
    }
}

impl Drop for AuditStream {
    fn drop(&mut self) {
        drop(self.commands.take());
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        if ended.recv_timeout(WRITER_TIMEOUT) == Err(RecvTimeoutError::Timeout) {
            let path = self.path.display();
            tracing::error!(%path, "the audit log writer did not stop; the last lines may be lost");
        }
    }
}

impl AuditStreamState {
    /// Reserves a place in the queue, if one is free.
    pub(super) fn reserve_place(&self) -> bool {
        let increment = |waiting: usize| (waiting < MAX_QUEUED_LINES).then_some(waiting + 1);
        self.waiting.fetch_update(Ordering::AcqRel, Ordering::Acquire, increment).is_ok()
    }

    /// Releases places after their lines are written.
    pub(super) fn release_places(&self, count: usize) {
        self.waiting.fetch_sub(count, Ordering::AcqRel);
    }

    pub(super) fn add_lost(&self, count: u64) {
        self.lost_ever.fetch_add(count, Ordering::Relaxed);
        self.restore_lost(count);
    }

    /// Adds back a count of lost records that could not be written.
    pub(super) fn restore_lost(&self, count: u64) {
        self.lost.fetch_add(count, Ordering::AcqRel);
    }

    pub(super) fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::AcqRel)
    }

    pub(super) fn set_last_error(&self, error: Option<String>) {
        *lock_mutex(&self.failing) = error;
    }

    pub(super) fn last_error(&self) -> Option<String> {
        lock_mutex(&self.failing).clone()
    }

    pub(super) fn take_account(&self) -> Option<String> {
        lock_mutex(&self.account).take()
    }

    pub(super) fn set_last_anchor(&self, last: Option<AuditAnchor>) {
        *lock_mutex(&self.last) = last;
    }
}

/// Poisoning is ignored: the guarded value is only replaced as a whole, so a panic cannot leave it inconsistent.
fn lock_mutex<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
