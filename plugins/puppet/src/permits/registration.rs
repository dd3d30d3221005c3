//! The entries of one node and run in one pool: writes, renews and removes them.

use std::sync::Arc;
use std::time::Duration;

use muster_api::base::duration_millis;
use muster_api::wire::identity::{Identity, SubjectName};
use muster_bus::{Bucket, BucketError, Bytes, OwnedKey};
use serde::Serialize;
use tokio::sync::Mutex;
use uuid::Uuid;

use crate::permits::record::{ClaimRecord, PermitKeyKind, WaitRecord};
use crate::permits::slots::AllocatedSlot;

/// Identifies the entries of one node and run in one pool. Clones share the state of the keys.
#[derive(Debug, Clone)]
pub(crate) struct PermitRegistration {
    /// Its reads are repeated until they are dropped.
    pub(crate) bucket: Bucket,
    pub(crate) pool: SubjectName,
    pub(crate) slot: AllocatedSlot,
    pub(crate) node: Identity,
    pub(crate) run: Uuid,
    pub(crate) lease: Duration,
    wait_key: Arc<Mutex<OwnedKey>>,
    claim_key: Arc<Mutex<OwnedKey>>,
}

/// What a run asks of its pool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlaceTerms {
    pub(crate) limit: u32,
    pub(crate) priority: i8,
    pub(crate) rollout: Option<Uuid>,
}

impl PermitRegistration {
    pub(crate) fn new(
        bucket: &Bucket,
        pool: SubjectName,
        slot: AllocatedSlot,
        node: Identity,
        run: Uuid,
        lease: Duration,
    ) -> Self {
        let owned_key = |kind: PermitKeyKind| {
            let key = bucket.owned_key(kind.entry_key(slot.number(), &node));
            Arc::new(Mutex::new(key))
        };
        let wait_key = owned_key(PermitKeyKind::Wait);
        let claim_key = owned_key(PermitKeyKind::Claim);
        let bucket = bucket.retry_until_dropped();
        Self { bucket, pool, slot, node, run, lease, wait_key, claim_key }
    }

    /// Writes the wait entry; returns its revision. Removes a claim that an earlier run left in the slot.
    pub(crate) async fn put_wait(&self, terms: PlaceTerms) -> Result<u64, BucketError> {
        self.delete_claim().await?;
        let wait = WaitRecord {
            pool: self.pool.clone(),
            run: self.run,
            priority: terms.priority,
            limit: terms.limit,
            lease: duration_millis(self.lease),
            rollout: terms.rollout,
        };
        self.wait_key.lock().await.write(to_bytes(&wait)).await
    }

    /// Writes a claim; returns its revision.
    pub(crate) async fn put_claim(
        &self,
        terms: PlaceTerms,
        occupied: bool,
    ) -> Result<u64, BucketError> {
        let claim = ClaimRecord {
            pool: self.pool.clone(),
            run: self.run,
            priority: terms.priority,
            limit: terms.limit,
            lease: duration_millis(self.lease),
            occupied,
        };
        self.claim_key.lock().await.write(to_bytes(&claim)).await
    }

    pub(crate) async fn delete_wait(&self) -> Result<(), BucketError> {
        self.wait_key.lock().await.delete().await
    }

    pub(crate) async fn delete_claim(&self) -> Result<(), BucketError> {
        self.claim_key.lock().await.delete().await
    }

    /// Writes a heartbeat; returns its revision. A late copy only prolongs the entries of this node.
    pub(crate) async fn send_heartbeat(&self) -> Result<u64, BucketError> {
        let value = Bytes::from(self.run.to_string());
        self.bucket.put(&self.beat_key(), value).await
    }

    /// Deletes all entries of this registration, however long the bucket is not available; gives up when they have expired. The wait
    /// entry goes first: a node without a claim that still waits would block others.
    pub(crate) async fn remove_entries(&self) {
        let removal = async {
            self.delete_wait().await?;
            self.delete_claim().await?;
            self.bucket.delete(&self.beat_key()).await
        };
        let problem = match tokio::time::timeout(self.lease, removal).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no confirmation within {} s", self.lease.as_secs()),
        };
        tracing::warn!(%problem, pool = %self.pool, "cannot release a permit; it expires with its lease");
    }

    fn beat_key(&self) -> String {
        PermitKeyKind::Beat.entry_key(self.slot.number(), &self.node)
    }
}

/// The records consist of numbers and strings, so serialising them cannot fail.
fn to_bytes(record: &impl Serialize) -> Bytes {
    Bytes::from(serde_json::to_vec(record).unwrap_or_default())
}
