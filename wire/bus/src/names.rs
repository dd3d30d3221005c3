//! The names of a fleet, as the store `PROVISION` keeps them: one entry under `name.NAME`, changed only by compare-and-set.
//!
//! The enroller and the organisation's own commands use the same entries; what a change means is decided by [`muster_wire::enrol::NameEntry`].

use bytes::Bytes;
use muster_wire::Millis;
use muster_wire::enrol::NameEntry;
use muster_wire::identity::Identity;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::store::{Bucket, BucketError};

/// How often a change is tried that others make, too.
const MAX_EDIT_ATTEMPTS: u32 = 50;
/// Where the organisation says that the names that it issued are in the store.
const ISSUED_KEY: &str = "issued";

/// The entries of names in one bucket.
#[derive(Debug, Clone)]
pub struct NameStore {
    bucket: Bucket,
}

/// When the organisation last wrote every name that it issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct IssuedMark {
    at: Millis,
}

impl NameStore {
    /// The names in this bucket, which is `PROVISION`.
    pub fn new(bucket: Bucket) -> Self {
        Self { bucket }
    }

    /// The entry of a name.
    pub async fn get(&self, name: &Identity) -> Result<Option<NameEntry>, BucketError> {
        Ok(self.read_value(&name_key(name)).await?.0)
    }

    /// Every entry. One that cannot be read is an error: what it says is not guessed.
    pub async fn list(&self) -> Result<Vec<NameEntry>, BucketError> {
        let entries = self.bucket.list("name.>").await?;
        let values = entries
            .iter()
            .filter_map(|entry| Some((entry.key.as_str(), entry.value.as_deref()?)));
        values
            .map(|(key, value)| self.parse_value(key, value))
            .collect()
    }

    /// Changes the entry of a name: reads it, lets `change` decide what to write, and writes it unless the entry was changed in between;
    /// then the change is decided again. `change` returns the new entry, or `None` to leave it, and an answer.
    pub async fn edit_entry<A>(
        &self,
        name: &Identity,
        change: impl Fn(Option<NameEntry>) -> (Option<NameEntry>, A),
    ) -> Result<A, BucketError> {
        self.edit_value(&name_key(name), change).await
    }

    /// The same for any value of the bucket that is JSON.
    pub async fn edit_value<T: DeserializeOwned + Serialize, A>(
        &self,
        key: &str,
        change: impl Fn(Option<T>) -> (Option<T>, A),
    ) -> Result<A, BucketError> {
        for _ in 0..MAX_EDIT_ATTEMPTS {
            let (known, revision) = self.read_value(key).await?;
            let (changed, answer) = change(known);
            let Some(changed) = changed else {
                return Ok(answer);
            };
            let bytes = self.encode_value(key, &changed)?;
            let written = match revision {
                Some(revision) => self.bucket.update(key, bytes, revision).await,
                None => self.bucket.create(key, bytes).await,
            };
            match written {
                Ok(_) => return Ok(answer),
                Err(BucketError::Conflict { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Err(BucketError::Conflict {
            key: key.to_owned(),
        })
    }

    /// Lets another key have the name from now on. The entry stays, with the keys that had it; whether there is one.
    pub async fn release_name(&self, name: &Identity) -> Result<bool, BucketError> {
        self.edit_entry(name, |held| match held {
            Some(mut entry) => {
                let is_new = !entry.released;
                entry.released = true;
                (is_new.then_some(entry), true)
            }
            None => (None, false),
        })
        .await
    }

    /// When the organisation last wrote every name that it issued; `None` if never.
    pub async fn issued_at(&self) -> Result<Option<Millis>, BucketError> {
        let (mark, _) = self.read_value::<IssuedMark>(ISSUED_KEY).await?;
        Ok(mark.map(|mark| mark.at))
    }

    /// Says that every name that the organisation issued until `at` is in the store.
    pub async fn set_issued_at(&self, at: Millis) -> Result<(), BucketError> {
        let bytes = self.encode_value(ISSUED_KEY, &IssuedMark { at })?;
        self.bucket.put(ISSUED_KEY, bytes).await.map(drop)
    }

    async fn read_value<T: DeserializeOwned>(
        &self,
        key: &str,
    ) -> Result<(Option<T>, Option<u64>), BucketError> {
        let Some(entry) = self.bucket.get(key).await? else {
            return Ok((None, None));
        };
        let value = entry.value.as_deref();
        let value = value
            .map(|value| self.parse_value(key, value))
            .transpose()?;
        Ok((value, Some(entry.revision)))
    }

    fn parse_value<T: DeserializeOwned>(&self, key: &str, value: &[u8]) -> Result<T, BucketError> {
        serde_json::from_slice(value).map_err(|error| self.json_failure("read", key, &error))
    }

    fn encode_value<T: Serialize>(&self, key: &str, value: &T) -> Result<Bytes, BucketError> {
        let bytes =
            serde_json::to_vec(value).map_err(|error| self.json_failure("write", key, &error))?;
        Ok(Bytes::from(bytes))
    }

    fn json_failure(
        &self,
        what: &'static str,
        key: &str,
        error: &serde_json::Error,
    ) -> BucketError {
        BucketError::Failed {
            what,
            bucket: self.bucket.name().to_owned(),
            problem: format!("{key}: {error}"),
        }
    }
}

fn name_key(name: &Identity) -> String {
    format!("name.{name}")
}
