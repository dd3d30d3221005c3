//! Watches a bucket: returns the state of its keys, then each republished change.
//!
//! Republished changes are plain messages, so some may be lost: through a disconnection, a full buffer, or a server that crashed after
//! storing them. A watch of the whole bucket detects each loss, because revisions have no gaps, and reads the missing changes before it
//! returns an entry with a higher revision. A watch of a part of the bucket detects only disconnections and full buffers.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use muster_wire::subject;
use tokio::time::{Instant, sleep, sleep_until};

use super::entry::{self, StoredChanges};
use super::{Bucket, BucketEntry, RETRY_INTERVAL, Result};
use crate::event::ConnectionMark;
use crate::subscription::{BusMessage, BusSubscription};

/// Matches every key.
const ALL_KEYS_PATTERN: &str = ">";

/// Interval at which an idle watch of a whole bucket checks for a missed last change.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Yields the states of keys, then each change, in the bucket's order.
#[derive(Debug)]
pub struct BucketWatch {
    bucket: Bucket,
    pattern: String,
    changes: BusSubscription,
    mark: ConnectionMark,
    /// Entries not returned yet.
    ready: VecDeque<BucketEntry>,
    /// Last returned revision per key.
    known_revisions: HashMap<String, u64>,
    /// All changes up to this revision are known.
    complete_revision: u64,
    /// When the newest known change was stored, by the broker's clock.
    newest_time: u64,
    /// A later change had a revision that was known before.
    has_stale_revisions: bool,
    /// Whether nothing of another stream may be returned, because the reader has stored what came before.
    checks_stream: bool,
    /// The newest known change was not stored any more, and no later one, when this was last checked.
    is_newest_gone: bool,
    /// At least this revision exists; the changes up to it must be read.
    missing_revision: Option<u64>,
    next_check: Instant,
}

impl Bucket {
    /// Watches every key that matches a pattern: its state first, then its changes.
    pub async fn watch(&self, pattern: &str) -> Result<BucketWatch> {
        self.watch_since(pattern, None).await
    }

    /// Watches the whole bucket after a revision, for a reader that has stored what came before. `created` is when the entry with this revision was created, 0 if that is
    /// not known; another time shows that the bucket was created again.
    pub async fn watch_after(&self, revision: u64, created: u64) -> Result<BucketWatch> {
        self.watch_since(ALL_KEYS_PATTERN, Some((revision, created))).await
    }

    async fn watch_since(&self, pattern: &str, after: Option<(u64, u64)>) -> Result<BucketWatch> {
        let (revision, created) = after.unwrap_or_default();
        let mark = self.bus.mark_connection();
        let changes = self.subscribe_changes(pattern).await?.into_iter().next();
        let mut watch = BucketWatch {
            bucket: self.clone(),
            pattern: pattern.to_owned(),
            changes: changes.ok_or_else(|| self.missing_error())?,
            mark,
            ready: VecDeque::new(),
            known_revisions: HashMap::new(),
            complete_revision: revision,
            newest_time: created,
            has_stale_revisions: false,
            checks_stream: after.is_some(),
            is_newest_gone: false,
            missing_revision: None,
            next_check: Instant::now() + CHECK_INTERVAL,
        };
        watch.read_missing(0).await?;
        Ok(watch)
    }

    async fn subscribe_changes(&self, pattern: &str) -> Result<Vec<BusSubscription>> {
        let mut attempt = 0;
        loop {
            let subject = subject::bucket_changes(self.name(), pattern);
            let error = match self.bus.subscribe_all(&[subject]).await {
                Ok(changes) => return Ok(changes),
                Err(error) => error,
            };
            if !self.retries_until_dropped() {
                return Err(self.failed_error("watch", &error));
            }
            attempt += 1;
            self.wait_for_retry(attempt).await;
        }
    }
}

impl BucketWatch {
    /// The next state; `None` when the connection is closed. Cancel safe.
    pub async fn next(&mut self) -> Result<Option<BucketEntry>> {
        loop {
            while let Some(entry) = self.ready.pop_front() {
                if self.is_new(&entry) {
                    return Ok(Some(entry));
                }
            }
            if let Some(revision) = self.missing_revision {
                self.read_missing(revision).await?;
                continue;
            }
            if self.is_disturbed() {
                self.mark = self.bucket.bus.mark_connection();
                // Revision 0 reads all unknown changes, without waiting for a certain one.
                self.missing_revision = Some(0);
                continue;
            }
            let is_whole = self.is_whole();
            tokio::select! {
                message = self.changes.next() => match message {
                    // It may be of a stream that was created again: what is stored is read first.
                    Some(_) if self.is_disturbed() => {}
                    Some(message) => self.accept_change(&message),
                    None => return Ok(None),
                },
                () = sleep_until(self.next_check), if is_whole => self.missing_revision = Some(0),
            }
        }
    }

    /// The next state that has been received already; `None` if [`Self::next`] would wait or read.
    pub fn next_received(&mut self) -> Option<BucketEntry> {
        loop {
            while let Some(entry) = self.ready.pop_front() {
                if self.is_new(&entry) {
                    return Some(entry);
                }
            }
            if self.missing_revision.is_some() || self.is_disturbed() {
                return None;
            }
            self.changes.try_next().map(|message| self.accept_change(&message))?;
        }
    }

    /// Whether all entries that existed when the watch began were returned.
    pub fn is_current(&self) -> bool {
        self.ready.is_empty()
    }

    /// All changes up to this revision were received. A write that is stored later has a higher revision, unless the stream was
    /// deleted and created again: then the watch is useless, and a new one must be opened.
    pub fn complete_revision(&self) -> u64 {
        self.complete_revision
    }

    /// Whether a change, or its absence, has suggested that the stream was created again. A write proves it: see [`Self::complete_revision`].
    pub fn has_stale_revisions(&self) -> bool {
        self.has_stale_revisions
    }

    /// Whether changes may have been lost since the last check.
    fn is_disturbed(&self) -> bool {
        self.bucket.bus.disturbed_since(self.mark).is_some()
    }

    fn is_whole(&self) -> bool {
        self.pattern == ALL_KEYS_PATTERN
    }

    /// Processes a republished change. Its metadata must match its subject; otherwise a writer made the broker send the message to
    /// another key's subject.
    fn accept_change(&mut self, message: &BusMessage) {
        let Some(entry) = entry::parse_entry(self.bucket.name(), message.nats_message()) else {
            // A forgery has a revision too; the resulting gap is closed by the next check.
            return;
        };
        if subject::bucket_changes(self.bucket.name(), &entry.key) != message.subject() {
            return;
        }
        if !self.is_whole() {
            self.ready.push_back(entry);
        } else if self.checks_stream && self.has_stale_revisions {
            // Only a new watch reads the changes before this one.
        } else if entry.revision == self.complete_revision + 1 {
            self.complete_revision = entry.revision;
            self.newest_time = entry.created;
            // The next change shows a gap, so only an idle watch has to look.
            self.next_check = Instant::now() + CHECK_INTERVAL;
            self.ready.push_back(entry);
        } else if entry.revision > self.complete_revision {
            self.missing_revision = Some(entry.revision);
        } else if entry.created > self.newest_time {
            self.has_stale_revisions = true;
        }
    }

    /// Reads unknown changes until this revision is included, because a replica may lag.
    async fn read_missing(&mut self, revision: u64) -> Result<()> {
        let known = if self.is_whole() { self.complete_revision } else { 0 };
        let changes = self.bucket.changes_since(&self.pattern, known.saturating_sub(1)).await?;
        self.check_newest(known, &changes);
        if self.checks_stream && self.has_stale_revisions {
            // The earlier changes of the new stream are unknown, so the later ones are not returned before them.
            self.missing_revision = None;
            self.next_check = Instant::now() + CHECK_INTERVAL;
            return Ok(());
        }
        let mut entries = changes.entries;
        entries.retain(|entry| entry.revision > known);
        let last = entries.iter().max_by_key(|entry| entry.revision);
        if let Some(last) = last.filter(|last| last.revision > self.complete_revision) {
            self.complete_revision = last.revision;
            self.newest_time = last.created;
        }
        self.ready.extend(entries);
        if self.complete_revision < revision && self.is_whole() {
            sleep(RETRY_INTERVAL).await;
            return Ok(());
        }
        self.missing_revision = None;
        self.next_check = Instant::now() + CHECK_INTERVAL;
        Ok(())
    }

    /// Compares the newest known change with what is stored from its revision on. In a stream that was created again, another change has this revision, or there is
    /// none yet. A replica that lags lacks it too, but not for long.
    fn check_newest(&mut self, known: u64, changes: &StoredChanges) {
        if !self.checks_stream || known == 0 || self.newest_time == 0 {
            return;
        }
        let is_gone = !changes.any_stored;
        let is_other = changes
            .entries
            .iter()
            .any(|entry| entry.revision == known && entry.created != self.newest_time);
        self.has_stale_revisions |= is_other || (is_gone && self.is_newest_gone);
        self.is_newest_gone = is_gone;
    }

    fn is_new(&mut self, entry: &BucketEntry) -> bool {
        let last_revision = self.known_revisions.entry(entry.key.clone()).or_default();
        let is_new = entry.revision > *last_revision;
        *last_revision = entry.revision.max(*last_revision);
        is_new
    }
}
