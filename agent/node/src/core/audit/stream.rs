//! One chained log with its writer thread: lines go through a bounded queue, so that neither a slow disk nor hashing delays requests. `mod.rs`
//! decides which records go to which log.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use muster_base::unix_millis_now;
use muster_wire::audit::AuditAnchor;
use serde::Serialize;
use tokio::sync::oneshot;

use super::log::ChainedLog;
use super::loss::LossFile;
use super::options::AuditOptions;
use super::record::{self, AuditRecord};
use super::refusals::RefusalWindows;
use super::writer::{AuditWriter, LogOperation, WriterCommand};
use super::{AuditLogError, AuditLogStatus, MAX_QUEUED_LINES, WRITER_TIMEOUT};
use crate::ground::shared::lock_mutex;

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
    pub(super) waiting: AtomicUsize,
    /// Lost records that the log does not count yet.
    pub(super) lost: AtomicU64,
    /// Records lost since the start.
    lost_ever: AtomicU64,
    /// The error of the last write, if it failed.
    pub(super) failing: Mutex<Option<String>>,
    /// An account token that the thread has not read yet.
    pub(super) account: Mutex<Option<String>>,
    pub(super) last: Mutex<Option<AuditAnchor>>,
}

impl AuditStream {
    /// Opens the log, creating it and its directory if needed, and starts the writer thread.
    pub(super) fn open(options: AuditOptions) -> Result<Self, AuditLogError> {
        let (path, fail_closed) = (options.path.clone(), options.settings.fail_closed);
        let loss_path = options.head.as_deref().map(|head| head.with_extension("lost"));
        let file_error = |source| AuditLogError::File { path: path.clone(), source };
        let log = ChainedLog::open(options).map_err(file_error)?;
        let last = Mutex::new(log.last_anchor());
        let loss = loss_path.and_then(|path| open_loss(&path));
        let shared = Arc::new(AuditStreamState { last, ..AuditStreamState::default() });
        shared.lost.store(loss.as_ref().map_or(0, LossFile::stored), Ordering::Release);
        let writer = AuditWriter { log, shared: Arc::clone(&shared), loss, retry_at: None };
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

    /// Never waits. On error the caller must not act; errors occur only with `audit.fail_closed`.
    pub(super) fn record_decision(&self, record: &AuditRecord) -> Result<(), AuditLogError> {
        let sent = self.send_line(record);
        match (lock_mutex(&self.shared.failing).clone(), sent) {
            (_, Err(error @ AuditLogError::Encode(_))) => Err(error),
            _ if !self.fail_closed => Ok(()),
            (Some(error), _) => Err(AuditLogError::Failing(error)),
            (None, sent) => sent,
        }
    }

    /// Records a decision, and returns when the record is in the file. On error the caller must not act.
    pub(super) async fn record_and_wait(&self, record: &AuditRecord) -> Result<(), AuditLogError> {
        let (reply, written) = oneshot::channel();
        self.send_line_as(record, |line| WriterCommand::WriteConfirmed(line, reply))?;
        match tokio::time::timeout(WRITER_TIMEOUT, written).await {
            Ok(Ok(written)) => written.map_err(AuditLogError::Failing),
            Ok(Err(_)) | Err(_) => Err(AuditLogError::Unresponsive),
        }
    }

    /// Counts a message of an unauthenticated sender. `reason` is a constant of the program; `claimed` is the unverified content of the message (a
    /// subject, a caller), and is truncated.
    pub(super) fn count_refusal(&self, reason: &'static str, claimed: Option<&str>) {
        let records = lock_mutex(&self.shared.refusals).add_refusal(
            Instant::now(),
            unix_millis_now(),
            reason,
            claimed,
        );
        for refusal in records {
            // A line that does not fit was counted as lost.
            let _ = self.send_line(&refusal);
        }
    }

    /// Queues a line; counts it as lost if that fails.
    fn send_line(&self, record: &impl Serialize) -> Result<(), AuditLogError> {
        self.send_line_as(record, WriterCommand::Write)
    }

    fn send_line_as(
        &self,
        record: &impl Serialize,
        command: impl FnOnce(Vec<u8>) -> WriterCommand,
    ) -> Result<(), AuditLogError> {
        let sent = record::encode_line(record).map_err(AuditLogError::Encode).and_then(|line| {
            if !self.shared.reserve_place() {
                return Err(AuditLogError::Full);
            }
            self.send_command(command(line))
        });
        if sent.is_err() {
            self.shared.add_lost(1);
        }
        sent
    }

    /// Records that were lost and are not yet counted in the log.
    pub(super) fn lost_records(&self) -> u64 {
        self.shared.lost.load(Ordering::Acquire)
    }

    /// Performs an operation after all queued lines are written. Blocks.
    pub(super) fn perform(&self, operation: LogOperation) -> Result<(), AuditLogError> {
        let (reply, replies) = sync_channel(1);
        self.send_command(WriterCommand::Perform(operation, reply))?;
        let result =
            replies.recv_timeout(WRITER_TIMEOUT).map_err(|_| AuditLogError::Unresponsive)?;
        result.map_err(|source| AuditLogError::File { path: self.path.clone(), source })
    }

    /// Sets a changed account token; the header of the next file contains it.
    pub(super) fn set_account(&self, token: &str) {
        *lock_mutex(&self.shared.account) = Some(token.to_owned());
    }

    pub(super) fn status(&self) -> AuditLogStatus {
        AuditLogStatus {
            waiting: self.shared.waiting.load(Ordering::Relaxed),
            lost: self.shared.lost_ever.load(Ordering::Relaxed),
            last: *lock_mutex(&self.shared.last),
            failing: lock_mutex(&self.shared.failing).clone(),
        }
    }

    fn send_command(&self, command: WriterCommand) -> Result<(), AuditLogError> {
        let commands = self.commands.as_ref().ok_or(AuditLogError::Unresponsive)?;
        commands.send(command).map_err(|_| AuditLogError::Unresponsive)
    }
}

/// The file of lost records. Without it, a loss is forgotten at a restart.
fn open_loss(path: &Path) -> Option<LossFile> {
    let opened = LossFile::open(path);
    if let Err(error) = &opened {
        tracing::error!(%error, path = %path.display(), "cannot open the file of lost audit records");
    }
    opened.ok()
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

    pub(super) fn add_lost(&self, count: u64) {
        self.lost_ever.fetch_add(count, Ordering::Relaxed);
        self.lost.fetch_add(count, Ordering::AcqRel);
    }
}
