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

use crate::connection::{Bus, refused};

pub use entry::Entry;
pub use watch::Watch;

/// How long a bucket may have no server that writes it, while its leader changes.
const LEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a bucket may have no server that reads it: every copy does.
const READER_TIMEOUT: Duration = Duration::from_secs(1);
/// Between two tries meanwhile.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);
/// How long the broker may take for one answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// `JetStream`'s error code for a write that expected another revision.
const WRONG_LAST_REVISION: u64 = 10071;

const OPERATION: &str = "KV-Operation";

/// Why a store did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
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
enum Unread {
    /// No server serves the bucket: it is missing, or unreachable for a moment.
    NoResponders,
    Failed(StoreError),
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
    pub async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        let entry = self.last(key, READER_TIMEOUT).await?;
        Ok(entry.filter(|entry| entry.value.is_some()))
    }

    /// As [`Self::get`], with one question only: a bucket that no server reads at this moment counts as missing.
    pub async fn get_once(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        let entry = self.last(key, Duration::ZERO).await?;
        Ok(entry.filter(|entry| entry.value.is_some()))
    }

    /// Writes the key, whatever its value was; gives the revision.
    pub async fn put(&self, key: &str, value: Bytes) -> Result<u64, StoreError> {
        self.write("write", key, value, None).await
    }

    /// Writes a key that has no value.
    pub async fn create(&self, key: &str, value: Bytes) -> Result<u64, StoreError> {
        let conflict = match self.update(key, value.clone(), 0).await {
            Err(conflict @ StoreError::Conflict { .. }) => conflict,
            done => return done,
        };
        // A removal is a change of the key too, with a revision of its own.
        match self.last(key, READER_TIMEOUT).await? {
            Some(entry) if entry.value.is_none() => self.update(key, value, entry.revision).await,
            _ => Err(conflict),
        }
    }

    /// Writes a key that has not been written since that revision.
    pub async fn update(&self, key: &str, value: Bytes, revision: u64) -> Result<u64, StoreError> {
        let mut headers = HeaderMap::new();
        headers.insert(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, revision.to_string());
        self.write("write", key, value, Some(headers)).await
    }

    /// Removes a key's value, whatever it was.
    pub async fn delete(&self, key: &str) -> Result<(), StoreError> {
        let mut headers = HeaderMap::new();
        headers.insert(OPERATION, "DEL");
        let removed = self.write("remove", key, Bytes::new(), Some(headers)).await;
        removed.map(drop)
    }

    /// The last change of the key, removals included.
    async fn last(&self, key: &str, within: Duration) -> Result<Option<Entry>, StoreError> {
        let latest = Instant::now() + within;
        loop {
            match self.last_once(key).await {
                Ok(entry) => return Ok(entry),
                Err(Unread::NoResponders) if Instant::now() < latest => {
                    sleep(RETRY_INTERVAL).await;
                }
                Err(Unread::NoResponders) => return Err(self.missing()),
                Err(Unread::Failed(error)) => return Err(error),
            }
        }
    }

    async fn last_once(&self, key: &str) -> Result<Option<Entry>, Unread> {
        let subject = subject::bucket_get(&self.name, key);
        let answer = self.request("read", subject, Request::new()).await?;
        Ok(entry::read(&self.name, &answer).filter(|entry| entry.key == key))
    }

    /// One question with one answer. A broker that refuses it says so to the connection, and not to the question.
    async fn request(
        &self,
        what: &'static str,
        subject: String,
        request: Request,
    ) -> Result<async_nats::Message, Unread> {
        let mut events = self.bus.events();
        let request = request.timeout(Some(ANSWER_TIMEOUT));
        // On the heap: the library's future is large, and is part of that of everyone who waits for it.
        let asked = Box::pin(self.bus.client().send_request(subject.clone(), request));
        tokio::select! {
            answer = asked => match answer {
                Ok(answer) => Ok(answer),
                Err(error) if error.kind() == RequestErrorKind::NoResponders => {
                    Err(Unread::NoResponders)
                }
                Err(error) => Err(Unread::Failed(self.failed(what, &error))),
            },
            () = refused(&mut events, &subject) => Err(Unread::Failed(self.refused(what, &subject))),
        }
    }

    /// What a role of an earlier version may not, `rpc org push` allows.
    fn refused(&self, what: &'static str, subject: &str) -> StoreError {
        let problem = format!(
            "these credentials may not publish on {subject}; if the fleet is older than this program, run `rpc org push`"
        );
        self.failed(what, &problem)
    }

    /// Writes, and repeats that while no server takes it: a bucket may have no leader for a moment. "No responders" means that nothing
    /// was written, so nothing is written twice.
    async fn write(
        &self,
        what: &'static str,
        key: &str,
        value: Bytes,
        headers: Option<HeaderMap>,
    ) -> Result<u64, StoreError> {
        let latest = Instant::now() + LEADER_TIMEOUT;
        loop {
            let request = Request::new()
                .payload(value.clone())
                .headers(headers.clone().unwrap_or_default());
            let subject = subject::bucket_key(&self.name, key);
            match self.request(what, subject, request).await {
                Ok(answer) => return self.written(what, key, &answer.payload),
                Err(Unread::Failed(error)) => return Err(error),
                Err(Unread::NoResponders) if Instant::now() < latest => {
                    sleep(RETRY_INTERVAL).await;
                }
                Err(Unread::NoResponders) => return Err(self.missing()),
            }
        }
    }

    fn written(&self, what: &'static str, key: &str, answer: &[u8]) -> Result<u64, StoreError> {
        match serde_json::from_slice(answer) {
            Ok(WriteAnswer { error: None, seq }) if seq > 0 => Ok(seq),
            Ok(WriteAnswer {
                error: Some(WriteFailure { err_code, .. }),
                ..
            }) if err_code == WRONG_LAST_REVISION => Err(StoreError::Conflict {
                key: key.to_owned(),
            }),
            Ok(WriteAnswer {
                error: Some(failure),
                ..
            }) => Err(self.failed(what, &failure.description)),
            _ => Err(self.failed(what, &"its answer is unreadable")),
        }
    }

    fn missing(&self) -> StoreError {
        StoreError::Missing {
            bucket: self.name.clone(),
        }
    }

    fn failed(&self, what: &'static str, problem: &dyn std::fmt::Display) -> StoreError {
        StoreError::Failed {
            what,
            bucket: self.name.clone(),
            problem: problem.to_string(),
        }
    }
}
