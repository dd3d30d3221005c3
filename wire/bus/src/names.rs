//! The name register in the bucket `PROVISION`: one entry under `name.NAME`, changed only by compare-and-set.
//!
//! The enroller and the organisation's commands share these entries; [`muster_wire::enrolment::NameEntry`] defines the changes.

use bytes::Bytes;
use muster_wire::Millis;
use muster_wire::enrolment::NameEntry;
use muster_wire::identity::Identity;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::store::{Bucket, BucketError, Result};

/// Most attempts of a compare-and-set change under contention.
const MAX_EDIT_ATTEMPTS: u32 = 50;
/// Key of the mark that all names issued by the organisation are in the register.
const ISSUED_KEY: &str = "issued";

/// The name entries in one bucket.
#[derive(Debug, Clone)]
pub struct NameStore {
    bucket: Bucket,
}

/// How long a register counts as new: nodes that lost their connection with the broker's streams write their records again within a day.
const NEW_REGISTER_MILLIS: Millis = 24 * 60 * 60 * 1000;

/// When the organisation last wrote all names that it issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct IssuedMark {
    at: Millis,
    /// When it first wrote them to this register; absent in marks of earlier versions.
    #[serde(default)]
    first: Millis,
}

impl NameStore {
    /// The names in this bucket, which must be `PROVISION`.
    pub fn new(bucket: Bucket) -> Self {
        Self { bucket }
    }

    /// The entry of a name.
    pub async fn get(&self, name: &Identity) -> Result<Option<NameEntry>> {
        Ok(self.read_value(&name_key(name)).await?.0)
    }

    /// All entries. An unreadable entry is an error, because its content must not be guessed.
    pub async fn list(&self) -> Result<Vec<NameEntry>> {
        let entries = self.bucket.list("name.>").await?;
        let values =
            entries.iter().filter_map(|entry| Some((entry.key.as_str(), entry.value.as_deref()?)));
        values.map(|(key, value)| self.parse_value(key, value)).collect()
    }

    /// Changes the entry of a name with compare-and-set: reads it, calls `change`, and writes the result unless the entry was changed
    /// meanwhile; in that case it repeats. `change` returns the new entry, or `None` to keep the current one, and a result value.
    pub async fn edit_entry<A>(
        &self,
        name: &Identity,
        change: impl Fn(Option<NameEntry>) -> (Option<NameEntry>, A),
    ) -> Result<A> {
        self.edit_value(&name_key(name), change).await
    }

    /// Like [`Self::edit_entry`], for any JSON value of the bucket.
    pub async fn edit_value<T: DeserializeOwned + Serialize, A>(
        &self,
        key: &str,
        change: impl Fn(Option<T>) -> (Option<T>, A),
    ) -> Result<A> {
        for _ in 0..MAX_EDIT_ATTEMPTS {
            let (current, revision) = self.read_value(key).await?;
            let (new_value, result) = change(current);
            let Some(new_value) = new_value else { return Ok(result) };
            let bytes = self.encode_value(key, &new_value)?;
            let written = match revision {
                Some(revision) => self.bucket.update(key, bytes, revision).await,
                None => self.bucket.create(key, bytes).await,
            };
            match written {
                Ok(_) => return Ok(result),
                Err(BucketError::Conflict { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Err(BucketError::Conflict { key: key.to_owned() })
    }

    /// Releases the name for another key. The entry is kept with its former keys. Returns whether an entry exists.
    pub async fn release_name(&self, name: &Identity) -> Result<bool> {
        self.edit_entry(name, |current| match current {
            Some(mut entry) => {
                let is_new = !entry.released;
                entry.released = true;
                (is_new.then_some(entry), true)
            }
            None => (None, false),
        })
        .await
    }

    /// When the organisation last wrote all names that it issued; `None` if never.
    pub async fn issued_at(&self) -> Result<Option<Millis>> {
        let (mark, _) = self.read_value::<IssuedMark>(ISSUED_KEY).await?;
        Ok(mark.map(|mark| mark.at))
    }

    /// Records that all names that the organisation issued until `at` are in the register.
    pub async fn set_issued_at(&self, at: Millis) -> Result<()> {
        let (mark, _) = self.read_value::<IssuedMark>(ISSUED_KEY).await?;
        let first = mark.map_or(at, |mark| mark.first);
        let bytes = self.encode_value(ISSUED_KEY, &IssuedMark { at, first })?;
        self.bucket.put(ISSUED_KEY, bytes).await.map(drop)
    }

    /// Whether the organisation has not written its names yet, or did so for the first time less than a day ago. An older register that was lost is new again.
    pub async fn is_new(&self, now: Millis) -> Result<bool> {
        let (mark, _) = self.read_value::<IssuedMark>(ISSUED_KEY).await?;
        Ok(mark.is_none_or(|mark| now.saturating_sub(mark.first) < NEW_REGISTER_MILLIS))
    }

    async fn read_value<T: DeserializeOwned>(&self, key: &str) -> Result<(Option<T>, Option<u64>)> {
        let Some(entry) = self.bucket.get(key).await? else { return Ok((None, None)) };
        let value = entry.value.as_deref();
        let value = value.map(|value| self.parse_value(key, value)).transpose()?;
        Ok((value, Some(entry.revision)))
    }

    fn parse_value<T: DeserializeOwned>(&self, key: &str, value: &[u8]) -> Result<T> {
        let failed = |error| self.bucket.failed_error("read", &format!("{key}: {error}"));
        serde_json::from_slice(value).map_err(failed)
    }

    fn encode_value<T: Serialize>(&self, key: &str, value: &T) -> Result<Bytes> {
        let failed = |error| self.bucket.failed_error("write", &format!("{key}: {error}"));
        serde_json::to_vec(value).map(Bytes::from).map_err(failed)
    }
}

fn name_key(name: &Identity) -> String {
    format!("name.{name}")
}
