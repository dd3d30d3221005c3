//! Key-value buckets of `JetStream`: values by key, each change with a revision that only grows.
//!
//! A bucket ([`Store`]) is declared by an administrator ([`Bus::declare`]). Everyone else reads it by direct get and follows it by the
//! broker's republished changes: no consumer, and no right to any other part of `JetStream`'s API. What a stored message says of itself is
//! not trusted: see [`entry`].

mod declare;
mod entry;
mod list;
mod watch;

use std::time::Duration;

use async_nats::header::{HeaderMap, NATS_EXPECTED_LAST_SUBJECT_SEQUENCE};
use async_nats::{Request, RequestErrorKind};
use bytes::Bytes;
use muster_wire::subject;
use serde::Deserialize;
use tokio::time::{Instant, sleep};

use crate::connection::{Bus, wait_refused};

pub use entry::BucketEntry;
pub use watch::BucketWatch;

/// How long a bucket may have no server that writes it, while its leader changes.
const LEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a bucket may have no server that reads it: every copy does.
const READER_TIMEOUT: Duration = Duration::from_secs(1);
/// Between two tries meanwhile.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);
/// How long the broker may take for one answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// `JetStream`'s error code for a write that expected another revision.
const WRONG_LAST_REVISION_CODE: u64 = 10071;

const OPERATION_HEADER: &str = "KV-Operation";

/// Why a store did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum BucketError {
    /// There is no such bucket, or no `JetStream` at all.
    #[error(
        "the broker has no store {bucket}; start it with JetStream, then run `rpc org push` once"
    )]
    Missing {
        /// The bucket.
        bucket: String,
    },
    /// Another writer changed the key first.
    #[error("{key} was changed by another writer")]
    Conflict {
        /// The key.
        key: String,
    },
    /// The broker did not answer, or refused.
    #[error("the broker did not {what} in the store {bucket}: {problem}")]
    Failed {
        /// What it should have done.
        what: &'static str,
        /// The bucket.
        bucket: String,
        /// In the broker's words.
        problem: String,
    },
}

/// One bucket. Clones share the connection.
#[derive(Debug, Clone)]
pub struct Bucket {
    bus: Bus,
    name: String,
}

/// What the broker answers to a write.
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
    err_code: u64,
    #[serde(default)]
    description: String,
}

/// A question that was not answered.
enum BucketRequestError {
    /// No server serves the bucket: it is missing, or unreachable for a moment.
    NoResponders,
    Failed(BucketError),
}

impl Bus {
    /// A bucket by its name. Whether it exists is known at the first read or write.
    pub fn bucket(&self, name: &str) -> Bucket {
        Bucket {
            bus: self.clone(),
            name: name.to_owned(),
        }
    }
}

impl Bucket {
    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The key's value; `None` when it was never written or was removed.
    pub async fn get(&self, key: &str) -> Result<Option<BucketEntry>, BucketError> {
        let entry = self.last_change(key, READER_TIMEOUT).await?;
        Ok(entry.filter(|entry| entry.value.is_some()))
    }

    /// As [`Self::get`], with one question only: a bucket that no server reads at this moment counts as missing.
    pub async fn get_once(&self, key: &str) -> Result<Option<BucketEntry>, BucketError> {
        let entry = self.last_change(key, Duration::ZERO).await?;
        Ok(entry.filter(|entry| entry.value.is_some()))
    }

    /// Writes the key, whatever its value was; gives the revision.
    pub async fn put(&self, key: &str, value: Bytes) -> Result<u64, BucketError> {
        self.write_value("write", key, value, None).await
    }

    /// Writes a key that has no value.
    pub async fn create(&self, key: &str, value: Bytes) -> Result<u64, BucketError> {
        let conflict = match self.update(key, value.clone(), 0).await {
            Err(conflict @ BucketError::Conflict { .. }) => conflict,
            done => return done,
        };
        // A removal is a change of the key too, with a revision of its own.
        match self.last_change(key, READER_TIMEOUT).await? {
            Some(entry) if entry.value.is_none() => self.update(key, value, entry.revision).await,
            _ => Err(conflict),
        }
    }

    /// Writes a key that has not been written since that revision.
    pub async fn update(&self, key: &str, value: Bytes, revision: u64) -> Result<u64, BucketError> {
        let mut headers = HeaderMap::new();
        headers.insert(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, revision.to_string());
        self.write_value("write", key, value, Some(headers)).await
    }

    /// Removes a key's value, whatever it was.
    pub async fn delete(&self, key: &str) -> Result<(), BucketError> {
        let mut headers = HeaderMap::new();
        headers.insert(OPERATION_HEADER, "DEL");
        let removed = self
            .write_value("remove", key, Bytes::new(), Some(headers))
            .await;
        removed.map(drop)
    }

    /// The last change of the key, removals included.
    async fn last_change(
        &self,
        key: &str,
        within: Duration,
    ) -> Result<Option<BucketEntry>, BucketError> {
        let latest = Instant::now() + within;
        loop {
            match self.last_change_once(key).await {
                Ok(entry) => return Ok(entry),
                Err(BucketRequestError::NoResponders) if Instant::now() < latest => {
                    sleep(RETRY_INTERVAL).await;
                }
                Err(BucketRequestError::NoResponders) => return Err(self.missing_error()),
                Err(BucketRequestError::Failed(error)) => return Err(error),
            }
        }
    }

    async fn last_change_once(&self, key: &str) -> Result<Option<BucketEntry>, BucketRequestError> {
        let subject = subject::bucket_get(&self.name, key);
        let answer = self.send_request("read", subject, Request::new()).await?;
        Ok(entry::parse_entry(&self.name, &answer).filter(|entry| entry.key == key))
    }

    /// One question with one answer. A broker that refuses it says so to the connection, and not to the question.
    async fn send_request(
        &self,
        what: &'static str,
        subject: String,
        request: Request,
    ) -> Result<async_nats::Message, BucketRequestError> {
        let mut events = self.bus.subscribe_events();
        let request = request.timeout(Some(ANSWER_TIMEOUT));
        // On the heap: the library's future is large, and is part of that of everyone who waits for it.
        let asked = Box::pin(
            self.bus
                .nats_client()
                .send_request(subject.clone(), request),
        );
        tokio::select! {
            answer = asked => match answer {
                Ok(answer) => Ok(answer),
                Err(error) if error.kind() == RequestErrorKind::NoResponders => {
                    Err(BucketRequestError::NoResponders)
                }
                Err(error) => Err(BucketRequestError::Failed(self.failed_error(what, &error))),
            },
            () = wait_refused(&mut events, &subject) => Err(BucketRequestError::Failed(self.refused_error(what, &subject))),
        }
    }

    /// What a role of an earlier version may not, `rpc org push` allows.
    fn refused_error(&self, what: &'static str, subject: &str) -> BucketError {
        let problem = format!(
            "these credentials may not publish on {subject}; if the fleet is older than this program, run `rpc org push`"
        );
        self.failed_error(what, &problem)
    }

    /// Writes, and repeats that while no server takes it: a bucket may have no leader for a moment. "No responders" means that nothing
    /// was written, so nothing is written twice.
    async fn write_value(
        &self,
        what: &'static str,
        key: &str,
        value: Bytes,
        headers: Option<HeaderMap>,
    ) -> Result<u64, BucketError> {
        let latest = Instant::now() + LEADER_TIMEOUT;
        loop {
            let request = Request::new()
                .payload(value.clone())
                .headers(headers.clone().unwrap_or_default());
            let subject = subject::bucket_key(&self.name, key);
            match self.send_request(what, subject, request).await {
                Ok(answer) => return self.parse_write_answer(what, key, &answer.payload),
                Err(BucketRequestError::Failed(error)) => return Err(error),
                Err(BucketRequestError::NoResponders) if Instant::now() < latest => {
                    sleep(RETRY_INTERVAL).await;
                }
                Err(BucketRequestError::NoResponders) => return Err(self.missing_error()),
            }
        }
    }

    fn parse_write_answer(
        &self,
        what: &'static str,
        key: &str,
        answer: &[u8],
    ) -> Result<u64, BucketError> {
        match serde_json::from_slice(answer) {
            Ok(WriteAnswer { error: None, seq }) if seq > 0 => Ok(seq),
            Ok(WriteAnswer {
                error: Some(WriteFailure { err_code, .. }),
                ..
            }) if err_code == WRONG_LAST_REVISION_CODE => Err(BucketError::Conflict {
                key: key.to_owned(),
            }),
            Ok(WriteAnswer {
                error: Some(failure),
                ..
            }) => Err(self.failed_error(what, &failure.description)),
            _ => Err(self.failed_error(what, &"its answer is unreadable")),
        }
    }

    fn missing_error(&self) -> BucketError {
        BucketError::Missing {
            bucket: self.name.clone(),
        }
    }

    fn failed_error(&self, what: &'static str, problem: &dyn std::fmt::Display) -> BucketError {
        BucketError::Failed {
            what,
            bucket: self.name.clone(),
            problem: problem.to_string(),
        }
    }
}
