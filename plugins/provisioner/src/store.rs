//! Where the service keeps what it knows: one key for each node in the bucket `PROVISION`, changed only by who knows what it was.

use muster_api::wire::identity::Identity;
use muster_api::wire::stores::PROVISION;
use muster_bus::{Bucket, Bus, Bytes, Entry, StoreError, Watch};

use crate::record::Record;

/// How often a change is tried that others make, too.
const TRIES: u32 = 50;
const NODE: &str = "node";

/// The store.
#[derive(Debug, Clone)]
pub struct Store {
    bucket: Bucket,
}

/// Why a record was not read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The broker.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Something else stands there.
    #[error("what is kept of {node} cannot be read")]
    Unreadable {
        /// The node, or its key.
        node: String,
        /// The parser's words.
        #[source]
        source: serde_json::Error,
    },
    /// There is no such node.
    #[error("nothing is known of {0}")]
    Unknown(Identity),
    /// A newer leader has taken over.
    #[error("another leader (epoch {epoch}) has taken {node} over")]
    Fenced {
        /// The node.
        node: Identity,
        /// The newer leader's number.
        epoch: u64,
    },
}

impl Store {
    /// Opens the store.
    pub fn open(bus: &Bus) -> Self {
        let bucket = bus.bucket(PROVISION.name);
        Self { bucket }
    }

    /// The bucket itself, for what is not about nodes.
    pub fn bucket(&self) -> &Bucket {
        &self.bucket
    }

    /// What is known of a node.
    pub async fn get(&self, node: &Identity) -> Result<Option<Record>, RecordError> {
        let entry = self.bucket.get(&key(node)).await?;
        entry.map(|entry| read(&entry)).transpose()
    }

    /// What is known of all nodes, by name; what cannot be read is left out and told.
    pub async fn all(&self) -> Result<Vec<Record>, RecordError> {
        let entries = self.bucket.list(&format!("{NODE}.>")).await?;
        let mut records: Vec<Record> = entries.iter().filter_map(readable).collect();
        records.sort_by(|one, other| one.identity.cmp(&other.identity));
        Ok(records)
    }

    /// Every node as it is, then each change.
    pub async fn watch(&self) -> Result<Watch, StoreError> {
        self.bucket.watch(&format!("{NODE}.>")).await
    }

    /// Writes a node that nothing is known of; false when something is.
    pub async fn create(&self, record: &Record) -> Result<bool, RecordError> {
        match self
            .bucket
            .create(&key(&record.identity), json(record))
            .await
        {
            Ok(_) => Ok(true),
            Err(StoreError::Conflict { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Changes what is known of a node: reads, lets it be changed, writes if nobody else has in between, or begins anew. `None` from
    /// `change` leaves everything as it is. Gives the record as it is then, and its revision.
    pub async fn edit(
        &self,
        node: &Identity,
        mut change: impl FnMut(&mut Record) -> Result<bool, RecordError>,
    ) -> Result<(Record, u64), RecordError> {
        let key = key(node);
        for _ in 0..TRIES {
            let entry = self.bucket.get(&key).await?;
            let entry = entry.ok_or_else(|| RecordError::Unknown(node.clone()))?;
            let mut record = read(&entry)?;
            if !change(&mut record)? {
                return Ok((record, entry.revision));
            }
            match self
                .bucket
                .update(&key, json(&record), entry.revision)
                .await
            {
                Ok(revision) => return Ok((record, revision)),
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(StoreError::Conflict { key }.into())
    }
}

/// What an entry says, if it is about a node and can be read.
pub fn readable(entry: &Entry) -> Option<Record> {
    entry.value.as_ref()?;
    read(entry)
        .inspect_err(|error| tracing::error!(%error, key = entry.key, "a node is left alone"))
        .ok()
}

fn read(entry: &Entry) -> Result<Record, RecordError> {
    let value = entry.value.as_deref().unwrap_or_default();
    serde_json::from_slice(value).map_err(|source| RecordError::Unreadable {
        node: entry.key.clone(),
        source,
    })
}

fn key(node: &Identity) -> String {
    format!("{NODE}.{node}")
}

fn json(record: &Record) -> Bytes {
    Bytes::from(serde_json::to_vec(record).unwrap_or_default())
}
