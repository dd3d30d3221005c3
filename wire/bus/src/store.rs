//! Key-value buckets of `JetStream`: values by key, with a growing revision per change.
//!
//! An administrator declares a bucket ([`Bucket`]) with [`Bus::declare_bucket`]. All other users read it by direct get and watch the
//! broker's republished changes. They need no consumer and no other permission for `JetStream`'s API. Metadata in stored messages is
//! untrusted: see [`entry`].

mod declare;
mod entry;
mod list;
mod owned_key;
mod remove;
mod watch;

use std::time::Duration;

use async_nats::header::{HeaderMap, NATS_EXPECTED_LAST_SUBJECT_SEQUENCE};
use async_nats::{Request, RequestErrorKind};
use bytes::Bytes;
use muster_wire::subject;
use serde::Deserialize;
use tokio::time::{Instant, sleep};

use crate::connection::{Bus, wait_lost, wait_refused};
use crate::error::BusError;
use crate::reconnect::ReconnectBackoff;

pub use declare::{BucketDeclaration, BucketReplicas, BucketSettingChange};
use entry::OPERATION_HEADER;
pub use entry::{BucketEntry, json_bytes};
pub use owned_key::OwnedKey;
pub use watch::BucketWatch;

/// How long to retry writes while a bucket has no leader, as during leader election.
const LEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to retry reads while no replica answers.
const READER_TIMEOUT: Duration = Duration::from_secs(1);
/// Interval between retries.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);
/// Delays between retries that have no timeout of their own: thousands of nodes retry at once while a bucket has no leader.
const RETRY_BACKOFF: ReconnectBackoff =
    ReconnectBackoff { first: Duration::from_millis(100), max: Duration::from_secs(2) };
/// Timeout of one answer of the broker.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// `JetStream`'s error code for a write with a wrong expected revision.
const WRONG_LAST_REVISION_CODE: u64 = 10071;

/// `JetStream`'s status for a server or stream that is not available now.
const UNAVAILABLE_STATUS: u64 = 503;

/// A result of an operation on a bucket.
pub(crate) type Result<T, E = BucketError> = std::result::Result<T, E>;

/// Bucket errors.
#[derive(Debug, thiserror::Error)]
pub enum BucketError {
    /// The bucket does not exist, or `JetStream` is disabled.
    #[error(
        "the broker has no bucket `{0}`; enable JetStream in the broker, then run `rpc org push`"
    )]
    Missing(String),
    /// Another writer changed the key first.
    #[error("another writer changed the key `{key}`")]
    Conflict {
        /// The key.
        key: String,
    },
    /// The broker refused the operation or did not answer.
    #[error("bucket `{bucket}`: cannot {operation}: {problem}")]
    Failed {
        /// The operation.
        operation: &'static str,
        /// The bucket.
        bucket: String,
        /// The broker's error.
        problem: String,
    },
}

/// One bucket. Clones share the connection.
#[derive(Debug, Clone)]
pub struct Bucket {
    bus: Bus,
    name: String,
    retry: RetryPolicy,
}

/// How long an operation is repeated while no server answers for the bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RetryPolicy {
    /// [`LEADER_TIMEOUT`] or [`READER_TIMEOUT`].
    Brief,
    /// Until the caller drops the operation.
    UntilDropped,
}

/// The broker's answer to a write.
#[derive(Debug, Deserialize)]
struct WriteAnswer {
    #[serde(default)]
    seq: u64,
    #[serde(default)]
    error: Option<WriteFailure>,
}

#[derive(Debug, Deserialize)]
struct WriteFailure {
    #[serde(default)]
    code: u64,
    #[serde(default)]
    err_code: u64,
    #[serde(default)]
    description: String,
}

/// A failed request.
enum BucketRequestError {
    /// No server serves the bucket: it is missing or temporarily unavailable.
    NoResponders,
    /// The answer is missing or says that the bucket is not available now. A write may have been stored.
    Unanswered(BucketError),
    Failed(BucketError),
}

impl Bus {
    /// A bucket by name. The first read or write checks that it exists.
    pub fn bucket(&self, name: &str) -> Bucket {
        Bucket { bus: self.clone(), name: name.to_owned(), retry: RetryPolicy::Brief }
    }
}

impl Bucket {
    /// The bucket name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A handle whose reads and watches are repeated until the caller drops them, with growing random delays. A bucket that is
    /// missing may be created, and its leader may be elected, so only a refusal of the broker ends them. Writes through this handle
    /// are repeated too and may be stored twice: see [`OwnedKey`].
    #[must_use]
    pub fn retry_until_dropped(&self) -> Self {
        Self { retry: RetryPolicy::UntilDropped, ..self.clone() }
    }

    /// The key's value; `None` if it was never written or was deleted.
    pub async fn get(&self, key: &str) -> Result<Option<BucketEntry>> {
        let entry = self.last_change(key, READER_TIMEOUT).await?;
        Ok(entry.filter(|entry| entry.value.is_some()))
    }

    /// Like [`Self::get`], without retries: a bucket that is temporarily unavailable counts as missing.
    pub async fn get_once(&self, key: &str) -> Result<Option<BucketEntry>> {
        let entry = self.last_change(key, Duration::ZERO).await?;
        Ok(entry.filter(|entry| entry.value.is_some()))
    }

    /// Writes the key unconditionally; returns the revision.
    pub async fn put(&self, key: &str, value: Bytes) -> Result<u64> {
        self.write_value("write", key, value, HeaderMap::new()).await
    }

    /// Like [`Self::put`], without retries: a bucket that is temporarily unavailable counts as missing.
    pub async fn put_once(&self, key: &str, value: Bytes) -> Result<u64> {
        match self.write_attempt("write", key, value, HeaderMap::new()).await {
            Ok(revision) => Ok(revision),
            Err(BucketRequestError::NoResponders) => Err(self.missing_error()),
            Err(BucketRequestError::Unanswered(error) | BucketRequestError::Failed(error)) => {
                Err(error)
            }
        }
    }

    /// Queues a write without waiting for the broker's answer: nothing reports whether the broker stored it.
    pub async fn put_unconfirmed(&self, key: &str, value: Bytes) -> Result<(), BusError> {
        self.bus.publish(&subject::bucket_key(&self.name, key), value).await
    }

    /// Writes a key only if it has no value.
    pub async fn create(&self, key: &str, value: Bytes) -> Result<u64> {
        let conflict = match self.update(key, value.clone(), 0).await {
            Err(conflict @ BucketError::Conflict { .. }) => conflict,
            result => return result,
        };
        // A deletion is also a change of the key, with its own revision.
        match self.last_change(key, READER_TIMEOUT).await? {
            Some(entry) if entry.value.is_none() => self.update(key, value, entry.revision).await,
            _ => Err(conflict),
        }
    }

    /// Writes a key only if its last revision is this one.
    pub async fn update(&self, key: &str, value: Bytes, revision: u64) -> Result<u64> {
        self.write_value("write", key, value, expecting(revision)).await
    }

    /// Deletes a key's value unconditionally.
    pub async fn delete(&self, key: &str) -> Result<()> {
        let mut headers = HeaderMap::new();
        headers.insert(OPERATION_HEADER, "DEL");
        self.write_value("delete", key, Bytes::new(), headers).await.map(drop)
    }

    /// The last change of the key, including deletions.
    async fn last_change(&self, key: &str, timeout: Duration) -> Result<Option<BucketEntry>> {
        self.retry_request(timeout, || self.last_change_once(key)).await
    }

    async fn last_change_once(&self, key: &str) -> Result<Option<BucketEntry>, BucketRequestError> {
        let subject = subject::bucket_get(&self.name, key);
        let reply = self.send_request("read", subject, Request::new()).await?;
        Ok(entry::parse_entry(&self.name, &reply).filter(|entry| entry.key == key))
    }

    /// Sends one request and waits for one answer. The broker reports a permission error as a connection event rather than as an answer.
    async fn send_request(
        &self,
        operation: &'static str,
        subject: String,
        request: Request,
    ) -> Result<async_nats::Message, BucketRequestError> {
        let mut events = self.bus.subscribe_events();
        let mut losses = self.bus.subscribe_events();
        let request = request.timeout(Some(ANSWER_TIMEOUT));
        // Boxed, because the library's future is large and would be embedded in every caller's future.
        let connection = self.bus.connection();
        let pending_reply = Box::pin(connection.client.send_request(subject.clone(), request));
        tokio::select! {
            reply = pending_reply => match reply {
                Ok(reply) => Ok(reply),
                Err(error) if error.kind() == RequestErrorKind::NoResponders => {
                    Err(BucketRequestError::NoResponders)
                }
                Err(error) => Err(BucketRequestError::Unanswered(self.failed_error(operation, &error))),
            },
            () = wait_lost(&mut losses), if self.retries_until_dropped() => {
                Err(BucketRequestError::Unanswered(self.lost_error(operation)))
            }
            () = wait_refused(&mut events, &subject) => Err(BucketRequestError::Failed(self.refused_error(operation, &subject))),
        }
    }

    /// Permission errors of roles from an earlier version are fixed by `rpc org push`.
    fn refused_error(&self, operation: &'static str, subject: &str) -> BucketError {
        let problem = format!(
            "these credentials have no permission to publish on {subject}; if the fleet was set up with an earlier version, run `rpc org push`"
        );
        self.failed_error(operation, &problem)
    }

    /// Writes with retries while no server accepts it, as during leader election. "No responders" means that nothing was written, so
    /// a retry cannot write twice.
    async fn write_value(
        &self,
        operation: &'static str,
        key: &str,
        value: Bytes,
        headers: HeaderMap,
    ) -> Result<u64> {
        self.retry_request(LEADER_TIMEOUT, || {
            self.write_attempt(operation, key, value.clone(), headers.clone())
        })
        .await
    }

    /// Writes once.
    async fn write_attempt(
        &self,
        operation: &'static str,
        key: &str,
        value: Bytes,
        headers: HeaderMap,
    ) -> Result<u64, BucketRequestError> {
        let request = Request::new().payload(value).headers(headers);
        let subject = subject::bucket_key(&self.name, key);
        let reply = self.send_request(operation, subject, request).await?;
        self.parse_write_answer(operation, key, &reply.payload)
    }

    /// Repeats a request while no server answers for the bucket: its leader may be changing. Brief retries end at a lost answer,
    /// because a write may have been stored.
    async fn retry_request<T, F: Future<Output = Result<T, BucketRequestError>>>(
        &self,
        timeout: Duration,
        request: impl Fn() -> F,
    ) -> Result<T> {
        let deadline = Instant::now() + timeout;
        for attempt in 1.. {
            match (request().await, self.retry) {
                (Ok(answer), _) => return Ok(answer),
                (Err(BucketRequestError::Failed(error)), _)
                | (Err(BucketRequestError::Unanswered(error)), RetryPolicy::Brief) => {
                    return Err(error);
                }
                (Err(_), RetryPolicy::UntilDropped) => self.wait_for_retry(attempt).await,
                (Err(BucketRequestError::NoResponders), RetryPolicy::Brief)
                    if Instant::now() < deadline =>
                {
                    sleep(RETRY_INTERVAL).await;
                }
                (Err(BucketRequestError::NoResponders), RetryPolicy::Brief) => break,
            }
        }
        Err(self.missing_error())
    }

    /// Waits for the connection, then for a random time that grows with the number of attempts.
    async fn wait_for_retry(&self, attempt: usize) {
        self.bus.wait_connected().await;
        sleep(RETRY_BACKOFF.random_delay(attempt)).await;
    }

    fn retries_until_dropped(&self) -> bool {
        self.retry == RetryPolicy::UntilDropped
    }

    fn lost_error(&self, operation: &'static str) -> BucketError {
        self.failed_error(operation, &"the connection was lost before the broker answered")
    }

    fn parse_write_answer(
        &self,
        operation: &'static str,
        key: &str,
        reply: &[u8],
    ) -> Result<u64, BucketRequestError> {
        let failure = match serde_json::from_slice(reply) {
            Ok(WriteAnswer { error: None, seq }) if seq > 0 => return Ok(seq),
            Ok(WriteAnswer { error: Some(failure), .. }) => failure,
            _ => {
                let error = self.failed_error(operation, &"cannot parse the answer");
                return Err(BucketRequestError::Failed(error));
            }
        };
        if failure.err_code == WRONG_LAST_REVISION_CODE {
            let conflict = BucketError::Conflict { key: key.to_owned() };
            return Err(BucketRequestError::Failed(conflict));
        }
        let error = self.failed_error(operation, &failure.description);
        Err(match failure.code {
            UNAVAILABLE_STATUS => BucketRequestError::Unanswered(error),
            _ => BucketRequestError::Failed(error),
        })
    }

    fn missing_error(&self) -> BucketError {
        BucketError::Missing(self.name.clone())
    }

    pub(crate) fn failed_error(
        &self,
        operation: &'static str,
        problem: &dyn std::fmt::Display,
    ) -> BucketError {
        BucketError::Failed { operation, bucket: self.name.clone(), problem: problem.to_string() }
    }
}

/// The header by which the broker stores a write only if the key's last revision is this one.
fn expecting(revision: u64) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, revision.to_string());
    headers
}
