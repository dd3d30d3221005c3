//! Leader election: the leader rewrites one key periodically. A standby takes over after one full lease without a new revision.
//!
//! No clocks are compared: each host measures the lease by its own clock. The leader gives up after two thirds of a lease without a write that the
//! broker accepted; standbys wait for a full lease. The revision with which the leader took the key is its *epoch*, written into each record.

use std::time::Duration;

use muster_wire::identity::Identity;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{Bucket, BucketError, Bytes};

const LEADER_KEY: &str = "leader";

/// Value of the leader key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaderRecord {
    /// The leader's host.
    pub host: Identity,
    /// Identifies this process of the service.
    #[serde(rename = "life")]
    pub instance: Uuid,
}

/// Leadership of this host, until it is lost.
#[derive(Debug)]
pub struct LeaderLease {
    /// Larger than the epoch of every earlier leader.
    pub epoch: u64,
    /// Cancelled before another host may become leader.
    pub lost: CancellationToken,
    renewal: tokio::task::JoinHandle<()>,
    bucket: Bucket,
}

/// Waits until this host is the leader.
pub async fn wait_for_leadership(
    bucket: &Bucket,
    host: &Identity,
    lease: Duration,
) -> Result<LeaderLease, BucketError> {
    let leader = LeaderRecord { host: host.clone(), instance: Uuid::now_v7() };
    let value = Bytes::from(serde_json::to_vec(&leader).unwrap_or_default());
    let mut last_seen: Option<(u64, Instant)> = None;
    loop {
        let started_at = Instant::now();
        let result = match bucket.get(LEADER_KEY).await? {
            None => bucket.create(LEADER_KEY, value.clone()).await,
            Some(entry) => match last_seen {
                Some((revision, since)) if revision == entry.revision => {
                    if since.elapsed() < lease {
                        tokio::time::sleep(lease / 10).await;
                        continue;
                    }
                    bucket.update(LEADER_KEY, value.clone(), revision).await
                }
                _ => {
                    last_seen = Some((entry.revision, Instant::now()));
                    continue;
                }
            },
        };
        match result {
            Ok(epoch) => {
                let (lost, bucket) = (CancellationToken::new(), bucket.clone());
                let renewing =
                    renew_until_lost(bucket.clone(), value, epoch, started_at, lease, lost.clone());
                return Ok(LeaderLease { epoch, lost, renewal: tokio::spawn(renewing), bucket });
            }
            Err(BucketError::Conflict { .. }) => last_seen = None,
            Err(error) => return Err(error),
        }
    }
}

/// The current leader, if any.
pub async fn current_leader(bucket: &Bucket) -> Result<Option<LeaderRecord>, BucketError> {
    let entry = bucket.get(LEADER_KEY).await?;
    let value = entry.and_then(|entry| entry.value);
    Ok(value.and_then(|value| serde_json::from_slice(&value).ok()))
}

impl LeaderLease {
    /// Gives up leadership by deleting the key, so that another host can take over at once.
    pub async fn resign(self) {
        self.renewal.abort();
        if !self.lost.is_cancelled()
            && let Err(error) = self.bucket.delete(LEADER_KEY).await
        {
            tracing::debug!(%error, "cannot delete the leader key; its lease must expire");
        }
    }
}

impl Drop for LeaderLease {
    fn drop(&mut self) {
        self.renewal.abort();
    }
}

async fn renew_until_lost(
    bucket: Bucket,
    value: Bytes,
    mut revision: u64,
    mut renewed_at: Instant,
    lease: Duration,
    lost: CancellationToken,
) {
    // One cycle takes at most a third of the lease (interval plus timeout), so at least two writes are tried before giving up.
    let interval = lease / 6;
    loop {
        tokio::time::sleep(interval).await;
        let sent_at = Instant::now();
        let writing = bucket.update(LEADER_KEY, value.clone(), revision);
        match tokio::time::timeout(interval, writing).await {
            Ok(Ok(next)) => (revision, renewed_at) = (next, sent_at),
            Ok(Err(BucketError::Conflict { .. })) => {
                // Either another host is the leader, or our last write succeeded and its reply was lost.
                match bucket.get(LEADER_KEY).await {
                    Ok(Some(entry)) if entry.value.as_ref() == Some(&value) => {
                        revision = entry.revision;
                    }
                    Ok(_) => {
                        lost.cancel();
                        return;
                    }
                    Err(_) => {}
                }
            }
            Ok(Err(_)) | Err(_) => {}
        }
        if renewed_at.elapsed() >= lease * 2 / 3 {
            tracing::warn!("gave up the leadership: the lease was not renewed in time");
            lost.cancel();
            return;
        }
    }
}
