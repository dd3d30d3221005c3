//! Key-value buckets of `JetStream`: values by key, each change with a revision that only grows.
//!
//! A bucket ([`Store`]) is declared once by whoever may ([`Bus::declare`]), and opened by everybody else.

use std::error::Error;
use std::time::Duration;

use async_nats::jetstream;
use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::kv;
use bytes::Bytes;
use futures_util::StreamExt;
use muster_wire::stores::Store;
use tokio::time::{Instant, sleep};

use crate::connection::Bus;

/// Largest value of any bucket, in bytes: well below what the broker takes as one message.
const MAX_VALUE: i32 = 512 * 1024;

/// How long a bucket that is there may have nobody who writes it.
const SILENCE: Duration = Duration::from_secs(5);
/// Between two tries meanwhile.
const PAUSE: Duration = Duration::from_millis(50);

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
    /// Somebody else wrote the key first.
    #[error("{key} was changed by somebody else")]
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

/// One state of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The value; `None` when the key was removed.
    pub value: Option<Bytes>,
    /// The change's place in the order of all changes of the bucket.
    pub revision: u64,
    /// When the broker took it, by the broker's clock, in milliseconds since the epoch.
    pub created: u64,
}

/// A bucket that is there.
#[derive(Debug, Clone)]
pub struct Bucket(kv::Store);

/// The states of keys as they are, then each change as it comes, in the bucket's order.
pub struct Watch {
    bucket: String,
    inner: kv::Watch,
    current: bool,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch")
            .field("bucket", &self.bucket)
            .finish_non_exhaustive()
    }
}

impl Bus {
    /// Makes the bucket if it is not there, and opens it; one that is there stays as it is. Needs the rights of a service.
    pub async fn declare(&self, plan: &Store, replicas: usize) -> Result<Bucket, StoreError> {
        if let Ok(bucket) = self.bucket(plan.name).await {
            return Ok(bucket);
        }
        let config = kv::Config {
            bucket: plan.name.to_owned(),
            description: plan.description.to_owned(),
            history: 1,
            max_value_size: MAX_VALUE,
            num_replicas: replicas,
            max_age: plan.max_age.unwrap_or_default(),
            ..kv::Config::default()
        };
        self.jetstream()
            .create_key_value(config)
            .await
            .map(Bucket)
            .map_err(failed("make it", plan.name))
    }

    /// Opens a bucket that somebody declared.
    pub async fn bucket(&self, name: &str) -> Result<Bucket, StoreError> {
        match self.jetstream().get_key_value(name).await {
            Ok(store) => Ok(Bucket(store)),
            Err(error) => {
                tracing::debug!(%error, name, "a store cannot be opened");
                Err(StoreError::Missing {
                    bucket: name.to_owned(),
                })
            }
        }
    }
}

impl Bucket {
    /// The name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The key's value as it is; `None` when it was never written or was removed.
    pub async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        let entry = self.0.entry(key).await.map_err(self.failed("read"))?;
        Ok(entry.map(given).filter(|entry| entry.value.is_some()))
    }

    /// Writes the key, whatever was there; gives the revision.
    pub async fn put(&self, key: &str, value: Bytes) -> Result<u64, StoreError> {
        heard(|| self.0.put(key, value.clone()))
            .await
            .map_err(self.failed("write"))
    }

    /// Writes a key that has no value.
    pub async fn create(&self, key: &str, value: Bytes) -> Result<u64, StoreError> {
        let conflict = match self.update(key, value.clone(), 0).await {
            Err(conflict @ StoreError::Conflict { .. }) => conflict,
            done => return done,
        };
        // That it was removed is a change of the key too, and the last one.
        match self.0.entry(key).await.map_err(self.failed("read"))? {
            Some(entry) if entry.operation != kv::Operation::Put => {
                self.update(key, value, entry.revision).await
            }
            _ => Err(conflict),
        }
    }

    /// Writes a key that nobody has written since that revision.
    pub async fn update(&self, key: &str, value: Bytes, revision: u64) -> Result<u64, StoreError> {
        match heard(|| self.0.update(key, value.clone(), revision)).await {
            Ok(revision) => Ok(revision),
            Err(error) if error.kind() == kv::UpdateErrorKind::WrongLastRevision => {
                Err(StoreError::Conflict {
                    key: key.to_owned(),
                })
            }
            Err(error) => Err(self.failed("write")(error)),
        }
    }

    /// Removes a key's value, whatever it was.
    pub async fn delete(&self, key: &str) -> Result<(), StoreError> {
        heard(|| self.0.delete(key))
            .await
            .map_err(self.failed("remove"))
    }

    /// Everything below a pattern such as `puppet.>`, as it is now.
    pub async fn list(&self, pattern: &str) -> Result<Vec<Entry>, StoreError> {
        let mut watch = self.watch(pattern).await?;
        let mut entries = Vec::new();
        while !watch.is_current() {
            match watch.next().await? {
                Some(entry) => entries.push(entry),
                None => break,
            }
        }
        entries.retain(|entry: &Entry| entry.value.is_some());
        Ok(entries)
    }

    /// Everything below a pattern as it is, and then as it changes.
    pub async fn watch(&self, pattern: &str) -> Result<Watch, StoreError> {
        let inner = self
            .0
            .watch_with_history(pattern)
            .await
            .map_err(self.failed("watch"))?;
        let mut watch = Watch {
            bucket: self.name().to_owned(),
            inner,
            current: false,
        };
        watch.current = !self.has_any(pattern).await?;
        Ok(watch)
    }

    /// Whether anything was ever written below a pattern. The library does not tell a watch of nothing from one that is behind.
    async fn has_any(&self, pattern: &str) -> Result<bool, StoreError> {
        let subject = format!("$KV.{}.{pattern}", self.name());
        let mut subjects = self
            .0
            .stream
            .info_with_subjects(subject)
            .await
            .map_err(self.failed("look"))?;
        match subjects.next().await {
            Some(Ok(_)) => Ok(true),
            Some(Err(error)) => Err(self.failed("look")(error)),
            None => Ok(false),
        }
    }

    fn failed<E: Error>(&self, what: &'static str) -> impl FnOnce(E) -> StoreError {
        failed(what, self.name())
    }
}

impl Watch {
    /// The next state; `None` when the connection is gone for good.
    pub async fn next(&mut self) -> Result<Option<Entry>, StoreError> {
        let Some(entry) = self.inner.next().await else {
            return Ok(None);
        };
        let entry = entry.map_err(failed("watch", &self.bucket))?;
        self.current |= entry.seen_current;
        Ok(Some(given(entry)))
    }

    /// Whether everything that was there when the watch began has been handed out.
    pub fn is_current(&self) -> bool {
        self.current
    }
}

/// Writes until somebody has heard it, for a while. A bucket that was opened may have nobody to write it for a moment: its leader changes,
/// or a server of the cluster has not learnt yet where it is. The broker then says that nobody listens, so that nothing was written.
async fn heard<T, E, W>(write: impl Fn() -> W) -> Result<T, E>
where
    E: Error + 'static,
    W: Future<Output = Result<T, E>>,
{
    let latest = Instant::now() + SILENCE;
    loop {
        match write().await {
            Err(error) if is_unheard(&error) && Instant::now() < latest => sleep(PAUSE).await,
            done => return done,
        }
    }
}

/// Whether the broker says that nobody listened.
fn is_unheard(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<PublishError>() {
            return error.kind() == PublishErrorKind::StreamNotFound;
        }
        cause = error.source();
    }
    false
}

fn given(entry: kv::Entry) -> Entry {
    let created = entry.created.unix_timestamp_nanos() / 1_000_000;
    Entry {
        key: entry.key,
        value: (entry.operation == kv::Operation::Put).then_some(entry.value),
        revision: entry.revision,
        created: u64::try_from(created).unwrap_or_default(),
    }
}

fn failed<E: Error>(what: &'static str, bucket: &str) -> impl FnOnce(E) -> StoreError {
    let bucket = bucket.to_owned();
    move |error| StoreError::Failed {
        what,
        bucket,
        problem: error.to_string(),
    }
}

impl Bus {
    fn jetstream(&self) -> jetstream::Context {
        jetstream::new(self.client().clone())
    }
}
