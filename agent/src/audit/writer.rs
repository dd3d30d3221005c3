//! The thread that owns the audit file: whole lines, appended, one write each.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::record::{self, Lost};
use super::{Shared, wall_clock};

/// How long the thread sleeps at most; it looks for closed windows of refusals then.
const IDLE: Duration = Duration::from_secs(10);

/// What the thread is told.
#[derive(Debug)]
pub(super) enum Order {
    /// A line with its end.
    Write(Vec<u8>),
    /// Open the path again: the file was moved away.
    Reopen(SyncSender<io::Result<()>>),
    /// Everything before is to be on the disk.
    Flush(SyncSender<io::Result<()>>),
}

/// The thread's own.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) path: PathBuf,
    pub(super) file: File,
    pub(super) shared: Arc<Shared>,
    /// Whether the file ends within a line, because a write was cut short.
    pub(super) torn: bool,
}

impl Writer {
    /// Works until every sender is gone.
    pub(super) fn run(mut self, orders: &Receiver<Order>) {
        loop {
            match orders.recv_timeout(self.patience()) {
                Ok(Order::Write(line)) => {
                    self.record(&line);
                    self.shared.give_place();
                }
                Ok(Order::Reopen(answer)) => {
                    // An asker that is gone needs no answer.
                    let _ = answer.send(self.reopen());
                }
                Ok(Order::Flush(answer)) => {
                    self.refusals(true);
                    let _ = answer.send(self.file.sync_data());
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.refusals(false);
        }
        self.refusals(true);
        // There is nobody left to tell.
        let _ = self.file.sync_data();
    }

    /// Until the next window of refusals ends.
    fn patience(&self) -> Duration {
        let refusals = self
            .shared
            .refusals
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let due = refusals
            .next_due()
            .map(|due| due.saturating_duration_since(Instant::now()));
        due.unwrap_or(IDLE).min(IDLE)
    }

    fn refusals(&mut self, all: bool) {
        let told = {
            let mut refusals = self
                .shared
                .refusals
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            if all {
                refusals.all()
            } else {
                refusals.due(Instant::now())
            }
        };
        for refusal in told {
            if let Ok(line) = record::line(&refusal) {
                self.record(&line);
            }
        }
    }

    /// Writes a line, and before it how many were lost, if any were.
    fn record(&mut self, line: &[u8]) {
        let lost = self.shared.take_lost();
        if lost > 0 {
            let lost_line = record::line(&Lost {
                time: wall_clock(),
                verdict: "lost",
                count: lost,
            });
            if lost_line.is_err() || self.append(&lost_line.unwrap_or_default()).is_err() {
                self.shared.add_lost(lost);
            }
        }
        match self.append(line) {
            Ok(()) => self.shared.set_failing(None),
            Err(error) => {
                self.shared.add_lost(1);
                self.shared.set_failing(Some(error.to_string()));
            }
        }
    }

    /// One write of the whole line. A write that was cut short leaves a torn line, which the next one ends first.
    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        let whole = if self.torn {
            [b"\n", line].concat()
        } else {
            line.to_vec()
        };
        let written = self.file.write(&whole)?;
        self.torn = written < whole.len() && (self.torn || written > 0);
        if written == whole.len() {
            Ok(())
        } else {
            Err(io::Error::from(io::ErrorKind::WriteZero))
        }
    }

    fn reopen(&mut self) -> io::Result<()> {
        self.file = open(&self.path)?;
        self.torn = false;
        Ok(())
    }
}

/// Opens the log for appending, 0640 if it is new: a group of log readers may be given it.
pub(super) fn open(path: &Path) -> io::Result<File> {
    if let Some(directory) = path.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o750)
            .create(directory)?;
    }
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o640)
        .open(path)
}
