//! The thread that owns the log: takes what waits together, and writes it together.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::log::Log;
use super::record::{self, Lost};
use super::stream::Shared;
use super::wall_clock;

/// How long the thread sleeps at most; it looks for closed windows of refusals then.
const IDLE: Duration = Duration::from_secs(10);
/// How long it waits for more lines before it writes the first: whoever records need not wake it for every line.
const LINGER: Duration = Duration::from_millis(1);
/// Most bytes that are written together.
const GROUP: usize = 256 * 1024;

/// What the thread is told.
#[derive(Debug)]
pub(super) enum Order {
    /// A line with its end.
    Write(Vec<u8>),
    /// Open the path again: the file was moved away.
    Reopen(SyncSender<io::Result<()>>),
    /// Everything before is to be on the disk.
    Flush(SyncSender<io::Result<()>>),
    /// The same, and signed.
    Seal(SyncSender<io::Result<()>>),
}

/// The thread's own.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) log: Log,
    pub(super) shared: Arc<Shared>,
}

impl Writer {
    /// Works until every sender is gone.
    pub(super) fn run(mut self, orders: &Receiver<Order>) {
        loop {
            match orders.recv_timeout(self.patience()) {
                Ok(order) => self.obey(order, orders),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.refusals(false);
            if self.log.checkpoint_due(Instant::now()) == Some(Duration::ZERO) {
                // What cannot be signed now is signed with the next line.
                let signed = self.log.checkpoint();
                self.told(signed);
            }
        }
        self.refusals(true);
        // There is nobody left to tell.
        let signed = self.log.checkpoint();
        self.told(signed);
        let _ = self.log.sync();
    }

    /// Until the next window of refusals ends, or a checkpoint is due.
    fn patience(&self) -> Duration {
        let refusals = self
            .shared
            .refusals
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let due = refusals
            .next_due()
            .map(|due| due.saturating_duration_since(now));
        let due = due.into_iter().chain(self.log.checkpoint_due(now));
        due.fold(IDLE, Duration::min)
    }

    /// Obeys one order, and those that wait behind it.
    fn obey(&mut self, first: Order, orders: &Receiver<Order>) {
        if matches!(first, Order::Write(_)) {
            // It is nobody's runtime thread; waking up early only makes the group smaller.
            std::thread::park_timeout(LINGER);
        }
        let (mut lines, mut bytes) = (Vec::new(), 0);
        let mut next = Some(first);
        while let Some(order) = next.take() {
            if let Order::Write(line) = order {
                bytes += line.len();
                lines.push(line);
            } else {
                self.record(std::mem::take(&mut lines));
                self.answer(order);
            }
            if bytes < GROUP {
                next = orders.try_recv().ok();
            }
        }
        self.record(lines);
    }

    fn answer(&mut self, order: Order) {
        // An asker that is gone needs no answer.
        let _ = match order {
            Order::Write(_) => Ok(()),
            Order::Reopen(answer) => answer.send(self.log.reopen()),
            Order::Flush(answer) => {
                self.refusals(true);
                answer.send(self.log.sync())
            }
            Order::Seal(answer) => {
                self.refusals(true);
                let sealed = self.log.checkpoint().and_then(|()| self.log.sync());
                answer.send(sealed)
            }
        };
        self.told(Ok(()));
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
        let lines = told.iter().filter_map(|refusal| record::line(refusal).ok());
        self.write(lines.collect());
    }

    /// Writes lines that took a place in the queue.
    fn record(&mut self, lines: Vec<Vec<u8>>) {
        let places = lines.len();
        self.write(lines);
        self.shared.give_places(places);
    }

    /// Writes lines, and before them how many were lost, if any were.
    fn write(&mut self, mut lines: Vec<Vec<u8>>) {
        if lines.is_empty() {
            return;
        }
        if let Some(token) = self.shared.take_account() {
            self.log.account_changed(token);
        }
        let lost = self.shared.take_lost();
        let told = (lost > 0).then(|| {
            record::line(&Lost {
                time: wall_clock(),
                verdict: "lost",
                count: lost,
            })
        });
        let told = usize::from(match told {
            Some(Ok(line)) => {
                lines.insert(0, line);
                true
            }
            _ => false,
        });
        let written = match self.log.append(&lines) {
            Ok(()) => {
                self.shared.set_failing(None);
                lines.len()
            }
            Err(short) => {
                self.shared.set_failing(Some(short.error.to_string()));
                short.written
            }
        };
        if written < told || (told == 0 && lost > 0) {
            self.shared.restore_lost(lost);
        }
        let records = lines.len() - told;
        let missed = records - written.saturating_sub(told).min(records);
        self.shared
            .add_lost(u64::try_from(missed).unwrap_or(u64::MAX));
        self.told(Ok(()));
    }

    /// Tells the door where the log stands, and of a failure.
    fn told(&self, result: io::Result<()>) {
        if let Err(error) = result {
            tracing::error!(%error, "the audit log could not be signed");
        }
        self.shared.set_last(self.log.last());
    }
}
