//! Reads many keys of a bucket: pages of a batched direct get, in revision order.

use bytes::Bytes;
use muster_wire::subject;
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use crate::connection::{wait_lost, wait_refused};

use super::entry::{self, StoredChanges};
use super::{ANSWER_TIMEOUT, Bucket, BucketEntry, BucketRequestError, READER_TIMEOUT, Result};

/// Values per page: well below the buffer size of a subscription.
const MAX_PAGE_ENTRIES: usize = 512;
/// Leaves the size of a page to the broker: 64 MiB by default.
const BROKER_PAGE_BYTES: usize = 0;

impl Bucket {
    /// Every key that matches a pattern such as `node.>` and has a value.
    pub async fn list(&self, pattern: &str) -> Result<Vec<BucketEntry>> {
        let mut entries = self.changes_since(pattern, 0).await?.entries;
        entries.retain(|entry| entry.value.is_some());
        Ok(entries)
    }

    /// Passes every key that matches a pattern and has a value to `visit`, in revision order. Only pages of about this many bytes are in memory. A key that
    /// changes meanwhile may occur twice, the older value first.
    pub async fn visit_values(
        &self,
        pattern: &str,
        page_bytes: usize,
        mut visit: impl FnMut(BucketEntry),
    ) -> Result<()> {
        let mut first = Some(1);
        while let Some(revision) = first {
            let page = self.read_page_at(pattern, revision, page_bytes).await?;
            page.entries.into_iter().filter(|entry| entry.value.is_some()).for_each(&mut visit);
            first = page.next;
        }
        Ok(())
    }

    /// The last change of each matching key with a revision above this one, including deletions, in revision order. A key that
    /// changes during the read may occur twice, the older change first.
    pub(super) async fn changes_since(
        &self,
        pattern: &str,
        revision: u64,
    ) -> Result<StoredChanges> {
        let mut changes = StoredChanges::default();
        let mut first = revision.saturating_add(1);
        loop {
            let page = self.read_page_at(pattern, first, BROKER_PAGE_BYTES).await?;
            changes.entries.extend(page.entries);
            changes.any_stored |= page.any_stored;
            let Some(next) = page.next else { return Ok(changes) };
            first = next;
        }
    }

    async fn read_page_at(&self, pattern: &str, first: u64, bytes: usize) -> Result<BucketPage> {
        self.retry_request(READER_TIMEOUT, || self.read_page(pattern, first, bytes)).await
    }

    async fn read_page(
        &self,
        pattern: &str,
        first: u64,
        max_bytes: usize,
    ) -> Result<BucketPage, BucketRequestError> {
        let unanswered = |problem: &dyn std::fmt::Display| {
            BucketRequestError::Unanswered(self.failed_error("list", problem))
        };
        let inbox = self.bus.connection().client.new_inbox();
        let subscription = self.bus.subscribe(&inbox).await;
        let mut subscription = subscription.map_err(|error| unanswered(&error))?;
        let page_request = json!({
            "seq": first,
            "batch": MAX_PAGE_ENTRIES,
            "max_bytes": max_bytes,
            "next_by_subj": subject::bucket_key(self.name(), pattern),
        });
        let page_request = Bytes::from(page_request.to_string());
        let (mut events, mut losses) = (self.bus.subscribe_events(), self.bus.subscribe_events());
        let list_subject = subject::bucket_list(self.name());
        let published = self.bus.publish_with_reply(&list_subject, &inbox, page_request).await;
        published.map_err(|error| unanswered(&error))?;
        let mut page = BucketPage::default();
        loop {
            let deadline = Instant::now() + ANSWER_TIMEOUT;
            let next = tokio::select! {
                next = timeout_at(deadline, subscription.next()) => next,
                () = wait_refused(&mut events, &list_subject) => {
                    return Err(BucketRequestError::Failed(self.refused_error("list", &list_subject)));
                }
                () = wait_lost(&mut losses), if self.retries_until_dropped() => {
                    return Err(BucketRequestError::Unanswered(self.lost_error("list")));
                }
            };
            let next = next.map_err(|_| unanswered(&"the broker did not answer in time"))?;
            let message = next.ok_or_else(|| unanswered(&"the connection is closed"))?;
            if message.is_no_responders() {
                return Err(BucketRequestError::NoResponders);
            }
            let message = message.nats_message();
            if entry::is_control(message) {
                page.finish_page(message);
                return Ok(page);
            }
            page.entries.extend(entry::parse_entry(self.name(), message));
        }
    }
}

/// The result of one page request.
#[derive(Default)]
struct BucketPage {
    entries: Vec<BucketEntry>,
    any_stored: bool,
    /// Start of the next page, if there is one.
    next: Option<u64>,
}

impl BucketPage {
    /// Parses the broker's end-of-batch status: the number of remaining entries, and the last sent sequence. "Not found" has neither.
    fn finish_page(&mut self, message: &async_nats::Message) {
        let header_number = |name: &'static str| {
            let headers = message.headers.as_ref()?;
            headers.get(name)?.as_str().parse::<u64>().ok()
        };
        let last = header_number("Nats-Last-Sequence");
        self.any_stored = last.is_some();
        if let (Some(1..), Some(last)) = (header_number("Nats-Num-Pending"), last) {
            self.next = Some(last.saturating_add(1));
        }
    }
}
