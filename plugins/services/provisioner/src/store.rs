//! Stores one record per node in the bucket `PROVISION`, with compare-and-swap updates.

use muster_api::wire::identity::Identity;
use muster_api::wire::stores::PROVISION_BUCKET;
use muster_base::unix_millis_now;
use muster_bus::{Bucket, BucketEntry, BucketError, BucketWatch, Bus, Bytes};
use uuid::Uuid;

use crate::record::{NodeRecord, StepError};

/// Maximum number of tries of an update that conflicts with concurrent writers.
const MAX_EDIT_TRIES: u32 = 50;
const NODE_PREFIX: &str = "node";

#[derive(Debug, Clone)]
pub struct NodeRecordStore {
    bucket: Bucket,
}

/// Why a record was not read or written.
#[derive(Debug, thiserror::Error)]
pub enum NodeRecordError {
    #[error(transparent)]
    Store(#[from] BucketError),
    #[error("cannot parse the provisioning record `{node}`")]
    Unreadable {
        /// The node, or its key.
        node: String,
        #[source]
        source: serde_json::Error,
    },
    #[error("there is no provisioning record of {0}")]
    Unknown(Identity),
    #[error("a newer leader (epoch {epoch}) has taken over {node}")]
    Fenced {
        node: Identity,
        /// The newer leader's epoch.
        epoch: u64,
    },
}

impl From<NodeRecordError> for StepError {
    fn from(error: NodeRecordError) -> Self {
        Self::transient(error.to_string())
    }
}

impl NodeRecordStore {
    pub fn open(bus: &Bus) -> Self {
        let bucket = bus.bucket(PROVISION_BUCKET.name);
        Self { bucket }
    }

    /// The bucket itself, for entries that are not node records.
    pub fn bucket(&self) -> &Bucket {
        &self.bucket
    }

    pub async fn get(&self, node: &Identity) -> Result<Option<NodeRecord>, NodeRecordError> {
        let entry = self.bucket.get(&node_key(node)).await?;
        entry.map(|entry| decode_record(&entry)).transpose()
    }

    /// Reads all records, by name; unreadable ones are skipped and logged.
    pub async fn list_records(&self) -> Result<Vec<NodeRecord>, NodeRecordError> {
        let entries = self.bucket.list(&format!("{NODE_PREFIX}.>")).await?;
        let mut records: Vec<NodeRecord> = entries.iter().filter_map(decode_if_readable).collect();
        records.sort_by(|one, other| one.identity.cmp(&other.identity));
        Ok(records)
    }

    /// Watches the records: the current values first, then each change.
    pub async fn watch_nodes(&self) -> Result<BucketWatch, BucketError> {
        self.bucket.watch(&format!("{NODE_PREFIX}.>")).await
    }

    /// Creates the record of an unknown node; returns false if there is one.
    pub async fn create_record(&self, record: &NodeRecord) -> Result<bool, NodeRecordError> {
        match self.bucket.create(&node_key(&record.identity), encode_record(record)).await {
            Ok(_) => Ok(true),
            Err(BucketError::Conflict { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Changes a record by compare-and-swap: reads, applies `change`, writes if the revision is unchanged, otherwise tries again. If `change` returns
    /// false, nothing is written. Returns the resulting record and its revision.
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
            match self.bucket.update(&key, encode_record(&record), entry.revision).await {
                Ok(revision) => return Ok((record, revision)),
                Err(BucketError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(BucketError::Conflict { key }.into())
    }

    /// Replaces the record of a node by that of a new provisioning, if `is_over` accepts the current one.
    pub async fn restart_record(
        &self,
        node: &Identity,
        is_over: impl Fn(&NodeRecord) -> bool,
    ) -> Result<(), NodeRecordError> {
        let edited = self.edit_record(node, |record| {
            let restarts = is_over(record);
            if restarts {
                let new_record = NodeRecord::new(node.clone(), Uuid::now_v7(), unix_millis_now());
                *record = NodeRecord { epoch: record.epoch, ..new_record };
            }
            Ok(restarts)
        });
        edited.await.map(drop)
    }
}

/// Decodes an entry; `None` if it is deleted or unreadable.
pub fn decode_if_readable(entry: &BucketEntry) -> Option<NodeRecord> {
    entry.value.as_ref()?;
    decode_record(entry)
        .inspect_err(|error| tracing::error!(%error, key = entry.key, "skipped a node record"))
        .ok()
}

fn decode_record(entry: &BucketEntry) -> Result<NodeRecord, NodeRecordError> {
    let value = entry.value.as_deref().unwrap_or_default();
    serde_json::from_slice(value)
        .map_err(|source| NodeRecordError::Unreadable { node: entry.key.clone(), source })
}

fn node_key(node: &Identity) -> String {
    format!("{NODE_PREFIX}.{node}")
}

fn encode_record(record: &NodeRecord) -> Bytes {
    Bytes::from(serde_json::to_vec(record).unwrap_or_default())
}
