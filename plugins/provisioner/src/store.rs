//! Where the service keeps what it knows: one key for each node in the bucket `PROVISION`, changed only by who knows what it was.

use muster_api::wire::identity::Identity;
use muster_api::wire::stores::PROVISION_BUCKET;
use muster_bus::{Bucket, BucketEntry, BucketError, BucketWatch, Bus, Bytes};

use crate::record::NodeRecord;

/// How often a change is tried that others make, too.
const MAX_EDIT_TRIES: u32 = 50;
const NODE_PREFIX: &str = "node";

/// The store.
#[derive(Debug, Clone)]
pub struct NodeRecordStore {
    bucket: Bucket,
}

/// Why a record was not read or written.
#[derive(Debug, thiserror::Error)]
pub enum NodeRecordError {
    /// The broker.
    #[error(transparent)]
    Store(#[from] BucketError),
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

impl NodeRecordStore {
    /// Opens the store.
    pub fn open(bus: &Bus) -> Self {
        let bucket = bus.bucket(PROVISION_BUCKET.name);
        Self { bucket }
    }

    /// The bucket itself, for what is not about nodes.
    pub fn bucket(&self) -> &Bucket {
        &self.bucket
    }

    /// What is known of a node.
    pub async fn get(&self, node: &Identity) -> Result<Option<NodeRecord>, NodeRecordError> {
        let entry = self.bucket.get(&node_key(node)).await?;
        entry.map(|entry| decode_record(&entry)).transpose()
    }

    /// What is known of all nodes, by name; what cannot be read is left out and told.
    pub async fn list_records(&self) -> Result<Vec<NodeRecord>, NodeRecordError> {
        let entries = self.bucket.list(&format!("{NODE_PREFIX}.>")).await?;
        let mut records: Vec<NodeRecord> = entries.iter().filter_map(decode_if_readable).collect();
        records.sort_by(|one, other| one.identity.cmp(&other.identity));
        Ok(records)
    }

    /// Every node as it is, then each change.
    pub async fn watch_nodes(&self) -> Result<BucketWatch, BucketError> {
        self.bucket.watch(&format!("{NODE_PREFIX}.>")).await
    }

    /// Writes a node that nothing is known of; false when something is.
    pub async fn create_record(&self, record: &NodeRecord) -> Result<bool, NodeRecordError> {
        match self
            .bucket
            .create(&node_key(&record.identity), encode_record(record))
            .await
        {
            Ok(_) => Ok(true),
            Err(BucketError::Conflict { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Changes what is known of a node: reads, lets it be changed, writes if nobody else has in between, or begins anew. `None` from
    /// `change` leaves everything as it is. Gives the record as it is then, and its revision.
    pub async fn edit_record(
        &self,
        node: &Identity,
        mut change: impl FnMut(&mut NodeRecord) -> Result<bool, NodeRecordError>,
    ) -> Result<(NodeRecord, u64), NodeRecordError> {
        let key = node_key(node);
        for _ in 0..MAX_EDIT_TRIES {
            let entry = self.bucket.get(&key).await?;
            let entry = entry.ok_or_else(|| NodeRecordError::Unknown(node.clone()))?;
            let mut record = decode_record(&entry)?;
            if !change(&mut record)? {
                return Ok((record, entry.revision));
            }
            match self
                .bucket
                .update(&key, encode_record(&record), entry.revision)
                .await
            {
                Ok(revision) => return Ok((record, revision)),
                Err(BucketError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(BucketError::Conflict { key }.into())
    }
}

/// What an entry says, if it is about a node and can be read.
pub fn decode_if_readable(entry: &BucketEntry) -> Option<NodeRecord> {
    entry.value.as_ref()?;
    decode_record(entry)
        .inspect_err(|error| tracing::error!(%error, key = entry.key, "a node is left alone"))
        .ok()
}

fn decode_record(entry: &BucketEntry) -> Result<NodeRecord, NodeRecordError> {
    let value = entry.value.as_deref().unwrap_or_default();
    serde_json::from_slice(value).map_err(|source| NodeRecordError::Unreadable {
        node: entry.key.clone(),
        source,
    })
}

fn node_key(node: &Identity) -> String {
    format!("{NODE_PREFIX}.{node}")
}

fn encode_record(record: &NodeRecord) -> Bytes {
    Bytes::from(serde_json::to_vec(record).unwrap_or_default())
}
