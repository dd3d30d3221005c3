//! Follows a bucket: the states of its keys, then each change as the broker republishes it.
//!
//! Republished changes are plain messages, so some may be lost: with the connection, in a full buffer, or with a server that stored them and
//! died. A watch of the whole bucket notices each loss, because revisions have no gaps, and reads what it lacks. Then everything with a smaller
//! revision has been handed out before an entry is. A watch of a part of the bucket notices a lost connection and a full buffer only.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use muster_wire::subject;
use tokio::time::{Instant, sleep, sleep_until};

use super::{Bucket, BucketEntry, BucketError, RETRY_INTERVAL, entry};
use crate::connection::{BusMessage, BusSubscription};
use crate::event::ConnectionMark;

/// The pattern of every key.
const ALL_KEYS_PATTERN: &str = ">";

/// How often a quiet watch of a whole bucket asks whether it has missed the last change.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The states of keys, then each change as it comes, in the bucket's order.
#[derive(Debug)]
pub struct BucketWatch {
    bucket: Bucket,
    pattern: String,
    changes: BusSubscription,
    mark: ConnectionMark,
    /// Read and not yet handed out.
    ready: VecDeque<BucketEntry>,
    /// The last revision of each key that was handed out.
    known: HashMap<String, u64>,
    /// Every change up to this revision is known.
    complete: u64,
    /// At least this revision exists, and what lies between must be read.
    missing: Option<u64>,
    next_check: Instant,
}

impl Bucket {
    /// Every key that matches a pattern with its state, and then its changes.
    pub async fn watch(&self, pattern: &str) -> Result<BucketWatch, BucketError> {
        let mark = self.bus.mark_connection();
        let subject = subject::bucket_changes(self.name(), pattern);
        let changes = self.bus.subscribe_all(&[subject]).await;
        let changes = changes.map_err(|error| self.failed_error("watch", &error))?;
        let changes = changes.into_iter().next();
        let mut watch = BucketWatch {
            bucket: self.clone(),
            pattern: pattern.to_owned(),
            changes: changes.ok_or_else(|| self.missing_error())?,
            mark,
            ready: VecDeque::new(),
            known: HashMap::new(),
            complete: 0,
            missing: None,
            next_check: Instant::now() + CHECK_INTERVAL,
        };
        watch.read_missing(0).await?;
        Ok(watch)
    }
}

impl BucketWatch {
    /// The next state; `None` when the connection is closed. Nothing is lost when it is dropped before its end.
    pub async fn next(&mut self) -> Result<Option<BucketEntry>, BucketError> {
        loop {
            while let Some(entry) = self.ready.pop_front() {
                if self.is_new(&entry) {
                    return Ok(Some(entry));
                }
            }
            if let Some(revision) = self.missing {
                self.read_missing(revision).await?;
                continue;
            }
            if self.bucket.bus.disturbed_since(self.mark).is_some() {
                self.mark = self.bucket.bus.mark_connection();
                self.missing = Some(0);
                continue;
            }
            let is_whole = self.is_whole();
            tokio::select! {
                message = self.changes.next() => match message {
                    Some(message) => self.accept_change(&message),
                    None => return Ok(None),
                },
                () = sleep_until(self.next_check), if is_whole => self.missing = Some(0),
            }
        }
    }

    /// Whether everything that was there when the watch began has been handed out.
    pub fn is_current(&self) -> bool {
        self.ready.is_empty()
    }

    fn is_whole(&self) -> bool {
        self.pattern == ALL_KEYS_PATTERN
    }

    /// Takes in a republished change. It must say of itself what its subject says: another subject is a message that the broker was made
    /// to send there.
    fn accept_change(&mut self, message: &BusMessage) {
        let Some(entry) = entry::parse_entry(self.bucket.name(), message.nats_message()) else {
            // A forgery has a revision too, and leaves a gap that the next check closes.
            return;
        };
        if subject::bucket_changes(self.bucket.name(), &entry.key) != message.subject() {
            return;
        }
        if !self.is_whole() {
            self.ready.push_back(entry);
        } else if entry.revision == self.complete + 1 {
            self.complete = entry.revision;
            self.ready.push_back(entry);
        } else if entry.revision > self.complete {
            self.missing = Some(entry.revision);
        }
    }

    /// Reads what is not known yet, until this revision is among it: a copy of the bucket may lag.
    async fn read_missing(&mut self, revision: u64) -> Result<(), BucketError> {
        let since = if self.is_whole() { self.complete } else { 0 };
        let entries = self.bucket.changes_since(&self.pattern, since).await?;
        let last = entries.iter().map(|entry| entry.revision).max();
        self.complete = self.complete.max(last.unwrap_or_default());
        self.ready.extend(entries);
        if self.complete < revision && self.is_whole() {
            sleep(RETRY_INTERVAL).await;
            return Ok(());
        }
        self.missing = None;
        self.next_check = Instant::now() + CHECK_INTERVAL;
        Ok(())
    }

    fn is_new(&mut self, entry: &BucketEntry) -> bool {
        let known = self.known.entry(entry.key.clone()).or_default();
        let is_new = entry.revision > *known;
        *known = entry.revision.max(*known);
        is_new
    }
}
