//! The thread that owns the log: collects queued lines and writes them in batches.

use muster_base::unix_millis_now;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use muster_system::process::pause;

use super::log::ChainedLog;
use super::record::{self, LostRecords};
use super::stream::AuditStreamState;

/// Maximum sleep of the thread; it closes expired refusal windows when it wakes.
const MAX_IDLE_WAIT: Duration = Duration::from_secs(10);
/// How long it waits for more lines before it writes the first one. Batching saves a wake-up per line.
const BATCH_DELAY: Duration = Duration::from_millis(1);
/// Maximum size of a batch, in bytes.
const MAX_BATCH_BYTES: usize = 256 * 1024;

/// A command for the thread.
#[derive(Debug)]
pub(super) enum WriterCommand {
    /// Write a line, newline included.
    Write(Vec<u8>),
    /// Reopen the path: the file was moved away.
    Reopen(SyncSender<io::Result<()>>),
    /// Sync all earlier lines to disk.
    Flush(SyncSender<io::Result<()>>),
    /// Sync and sign.
    Seal(SyncSender<io::Result<()>>),
}

/// The state of the thread.
#[derive(Debug)]
pub(super) struct AuditWriter {
    pub(super) log: ChainedLog,
    pub(super) shared: Arc<AuditStreamState>,
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
            if self.log.checkpoint_due(Instant::now()) == Some(Duration::ZERO) {
                // A checkpoint that fails now is retried with the next line.
                let signed = self.log.write_checkpoint();
                self.publish_state(signed);
            }
        }
        self.write_refusals(true);
        // No sender is left to receive an error.
        let signed = self.log.write_checkpoint();
        self.publish_state(signed);
        let _ = self.log.sync();
    }

    /// Time until the next refusal window ends or a checkpoint is due.
    fn next_timeout(&self) -> Duration {
        let refusals = self.shared.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let due = refusals.next_due().map(|due| due.saturating_duration_since(now));
        let due = due.into_iter().chain(self.log.checkpoint_due(now));
        due.fold(MAX_IDLE_WAIT, Duration::min)
    }

    /// Processes one command and those queued after it.
    fn process_commands(&mut self, first: WriterCommand, commands: &Receiver<WriterCommand>) {
        if matches!(first, WriterCommand::Write(_)) {
            pause(BATCH_DELAY);
        }
        let (mut lines, mut bytes) = (Vec::new(), 0);
        let mut next = Some(first);
        while let Some(command) = next.take() {
            if let WriterCommand::Write(line) = command {
                bytes += line.len();
                lines.push(line);
            } else {
                self.write_queued(std::mem::take(&mut lines));
                self.answer_command(command);
            }
            if bytes < MAX_BATCH_BYTES {
                next = commands.try_recv().ok();
            }
        }
        self.write_queued(lines);
    }

    fn answer_command(&mut self, command: WriterCommand) {
        // The receiver may be gone; then the result is dropped.
        let _ = match command {
            WriterCommand::Write(_) => Ok(()),
            WriterCommand::Reopen(reply) => reply.send(self.log.reopen()),
            WriterCommand::Flush(reply) => {
                self.write_refusals(true);
                reply.send(self.log.sync())
            }
            WriterCommand::Seal(reply) => {
                self.write_refusals(true);
                let sealed = self.log.write_checkpoint().and_then(|()| self.log.sync());
                reply.send(sealed)
            }
        };
        self.publish_state(Ok(()));
    }

    fn write_refusals(&mut self, all: bool) {
        let records = {
            let mut refusals = self.shared.refusals.lock().unwrap_or_else(PoisonError::into_inner);
            if all { refusals.close_all() } else { refusals.close_due(Instant::now()) }
        };
        let lines = records.iter().filter_map(|refusal| record::encode_line(refusal).ok());
        self.write_lines(lines.collect());
    }

    /// Writes lines that hold places in the queue.
    fn write_queued(&mut self, lines: Vec<Vec<u8>>) {
        let count = lines.len();
        self.write_lines(lines);
        self.shared.release_places(count);
    }

    /// Writes lines, preceded by the count of lost records, if any.
    fn write_lines(&mut self, mut lines: Vec<Vec<u8>>) {
        if lines.is_empty() {
            return;
        }
        if let Some(token) = self.shared.take_account() {
            self.log.set_account(token);
        }
        let lost = self.shared.take_lost();
        let lost_line = (lost > 0).then(|| {
            record::encode_line(&LostRecords {
                time: unix_millis_now(),
                verdict: "lost",
                count: lost,
            })
        });
        let lost_lines = usize::from(match lost_line {
            Some(Ok(line)) => {
                lines.insert(0, line);
                true
            }
            _ => false,
        });
        let written = match self.log.append(&lines) {
            Ok(()) => {
                self.shared.set_last_error(None);
                lines.len()
            }
            Err(short) => {
                self.shared.set_last_error(Some(short.error.to_string()));
                short.written
            }
        };
        if written < lost_lines || (lost_lines == 0 && lost > 0) {
            self.shared.restore_lost(lost);
        }
        let records = lines.len() - lost_lines;
        let missed = records - written.saturating_sub(lost_lines).min(records);
        self.shared.add_lost(u64::try_from(missed).unwrap_or(u64::MAX));
        self.publish_state(Ok(()));
    }

    /// Publishes the log position and the error, if any, to the handle.
    fn publish_state(&self, result: io::Result<()>) {
        if let Err(error) = result {
            tracing::error!(%error, "cannot sign the audit log");
        }
        self.shared.set_last_anchor(self.log.last_anchor());
    }
}
