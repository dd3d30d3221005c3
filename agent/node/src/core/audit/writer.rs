//! The thread that owns the log: collects queued lines and writes them in batches.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use muster_base::unix_millis_now;
use muster_system::process::pause;
use tokio::sync::oneshot;

use super::log::ChainedLog;
use super::loss::LossFile;
use super::record::{self, LostRecords};
use super::stream::AuditStreamState;
use crate::ground::shared::lock_mutex;

/// Maximum sleep of the thread; it closes expired refusal windows when it wakes.
const MAX_IDLE_WAIT: Duration = Duration::from_secs(10);
/// How long it waits for more lines before it writes the first one. Batching saves a wake-up per line.
const BATCH_DELAY: Duration = Duration::from_millis(1);
/// Time until a failed checkpoint is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);
const MAX_BATCH_BYTES: usize = 256 * 1024;

/// What the thread does after all earlier lines are written.
#[derive(Debug, Clone, Copy)]
pub(super) enum LogOperation {
    /// Reopen the path: the file was moved away.
    Reopen,
    /// Sync to disk.
    Flush,
    /// Sign and sync to disk.
    Seal,
}

#[derive(Debug)]
pub(super) enum WriterCommand {
    /// Write a line, newline included.
    Write(Vec<u8>),
    /// Write a line, and send whether it is in the file.
    WriteConfirmed(Vec<u8>, oneshot::Sender<Result<(), String>>),
    Perform(LogOperation, SyncSender<io::Result<()>>),
}

#[derive(Debug)]
pub(super) struct AuditWriter {
    pub(super) log: ChainedLog,
    pub(super) shared: Arc<AuditStreamState>,
    /// Where the number of lost records survives a restart; `None` if there is no such file.
    pub(super) loss: Option<LossFile>,
    /// When a checkpoint that could not be written is tried again.
    pub(super) retry_at: Option<Instant>,
}

impl AuditWriter {
    /// Runs until every sender is dropped.
    pub(super) fn run(mut self, commands: &Receiver<WriterCommand>) {
        loop {
            match commands.recv_timeout(self.next_timeout()) {
                Ok(command) => self.process_commands(command, commands),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.write_refusals(false);
            if self.checkpoint_due(Instant::now()) == Some(Duration::ZERO) {
                let signed = self.log.write_checkpoint();
                self.retry_at = signed.is_err().then(|| Instant::now() + RETRY_INTERVAL);
                self.publish_state(signed);
            }
            self.store_loss();
        }
        self.write_refusals(true);
        let signed = self.log.write_checkpoint();
        self.publish_state(signed);
        // No sender is left to receive an error.
        let _ = self.log.sync();
        self.store_loss();
    }

    /// Time until a checkpoint is due, or may be tried again.
    fn checkpoint_due(&self, now: Instant) -> Option<Duration> {
        let due = self.log.checkpoint_due(now)?;
        let retry = self.retry_at.map(|retry_at| retry_at.saturating_duration_since(now));
        Some(due.max(retry.unwrap_or_default()))
    }

    /// Stores the number of lost records that the log does not count.
    fn store_loss(&mut self) {
        let count = self.shared.lost.load(Ordering::Acquire);
        if let Some(Err(error)) = self.loss.as_mut().map(|file| file.store(count)) {
            tracing::error!(%error, "cannot store the number of lost audit records");
            self.loss = None;
        }
    }

    /// Time until the next refusal window ends or a checkpoint is due.
    fn next_timeout(&self) -> Duration {
        let now = Instant::now();
        let due = lock_mutex(&self.shared.refusals).next_due();
        let due = due.map(|due| due.saturating_duration_since(now));
        let due = due.into_iter().chain(self.checkpoint_due(now));
        due.fold(MAX_IDLE_WAIT, Duration::min)
    }

    fn process_commands(&mut self, first: WriterCommand, commands: &Receiver<WriterCommand>) {
        if matches!(first, WriterCommand::Write(_)) {
            pause(BATCH_DELAY);
        }
        let (mut lines, mut bytes, mut waiting) = (Vec::new(), 0, Vec::new());
        let mut next = Some(first);
        while let Some(command) = next.take() {
            match command {
                WriterCommand::Write(line) => {
                    bytes += line.len();
                    lines.push(line);
                }
                WriterCommand::WriteConfirmed(line, reply) => {
                    bytes += line.len();
                    lines.push(line);
                    waiting.push(reply);
                }
                WriterCommand::Perform(operation, reply) => {
                    self.write_queued(std::mem::take(&mut lines));
                    self.confirm(&mut waiting);
                    // The receiver may be gone; then the result is dropped.
                    let _ = reply.send(self.perform(operation));
                    self.publish_state(Ok(()));
                }
            }
            if bytes < MAX_BATCH_BYTES {
                next = commands.try_recv().ok();
            }
        }
        self.write_queued(lines);
        self.confirm(&mut waiting);
    }

    /// Says of lines whether they are in the file: all of them, unless the write failed.
    fn confirm(&self, waiting: &mut Vec<oneshot::Sender<Result<(), String>>>) {
        let written = lock_mutex(&self.shared.failing).clone().map_or(Ok(()), Err);
        for reply in waiting.drain(..) {
            // The request may have been given up.
            let _ = reply.send(written.clone());
        }
    }

    fn perform(&mut self, operation: LogOperation) -> io::Result<()> {
        match operation {
            LogOperation::Reopen => return self.log.reopen(),
            LogOperation::Flush => self.write_refusals(true),
            LogOperation::Seal => {
                self.write_refusals(true);
                self.log.write_checkpoint()?;
            }
        }
        self.log.sync()
    }

    fn write_refusals(&mut self, all: bool) {
        let mut refusals = lock_mutex(&self.shared.refusals);
        let records = if all { refusals.close_all() } else { refusals.close_due(Instant::now()) };
        drop(refusals);
        let lines = records.iter().filter_map(|refusal| record::encode_line(refusal).ok());
        self.write_lines(lines.collect());
    }

    /// Writes lines that hold places in the queue.
    fn write_queued(&mut self, lines: Vec<Vec<u8>>) {
        let count = lines.len();
        self.write_lines(lines);
        self.shared.waiting.fetch_sub(count, Ordering::AcqRel);
    }

    /// Writes lines, preceded by the count of lost records, if any.
    fn write_lines(&mut self, mut lines: Vec<Vec<u8>>) {
        if lines.is_empty() {
            return;
        }
        if let Some(token) = lock_mutex(&self.shared.account).take() {
            self.log.set_account(token);
        }
        let lost = self.shared.lost.swap(0, Ordering::AcqRel);
        let mut lost_lines = 0;
        if lost > 0 {
            let record = LostRecords { time: unix_millis_now(), verdict: "lost", count: lost };
            if let Ok(line) = record::encode_line(&record) {
                lines.insert(0, line);
                lost_lines = 1;
            }
        }
        let (written, error) = match self.log.append(&lines) {
            Ok(()) => (lines.len(), None),
            Err(short) => (short.written, Some(short.error.to_string())),
        };
        *lock_mutex(&self.shared.failing) = error;
        if lost > 0 && (lost_lines == 0 || written == 0) {
            // The count was not written; the next line is preceded by it.
            self.shared.lost.fetch_add(lost, Ordering::AcqRel);
        }
        let missed = (lines.len() - lost_lines).saturating_sub(written.saturating_sub(lost_lines));
        self.shared.add_lost(missed as u64);
        self.publish_state(Ok(()));
    }

    /// Publishes the log position and the error, if any, to the handle.
    fn publish_state(&self, result: io::Result<()>) {
        if let Err(error) = result {
            tracing::error!(%error, "cannot sign the audit log");
        }
        *lock_mutex(&self.shared.last) = self.log.last_anchor();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use super::super::log::ChainedLog;
    use super::super::tests::{options_with, record};
    use super::{AuditStreamState, AuditWriter, RETRY_INTERVAL, record as encoding};
    use crate::config::AuditConfig;

    #[test]
    fn failed_checkpoint_is_not_tried_again_at_once() {
        let scratch = tempfile::tempdir().unwrap();
        let settings = AuditConfig { checkpoint_lines: 1, ..AuditConfig::default() };
        let log = ChainedLog::open(options_with(&scratch.path().join("audit.log"), settings));
        let shared = Arc::new(AuditStreamState::default());
        let mut writer = AuditWriter { log: log.unwrap(), shared, loss: None, retry_at: None };
        let line = encoding::encode_line(&record("restart")).unwrap();
        assert!(writer.log.append(&[line]).is_ok());
        let now = Instant::now();
        assert_eq!(writer.next_timeout(), Duration::ZERO);
        writer.retry_at = Some(now + RETRY_INTERVAL);
        assert_eq!(writer.checkpoint_due(now), Some(RETRY_INTERVAL));
        assert!(writer.next_timeout() > RETRY_INTERVAL / 2);
    }
}
