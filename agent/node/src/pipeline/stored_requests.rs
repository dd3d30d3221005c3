//! Reads requests that their callers stored at the broker and sent a reference to: see [`muster_wire::stored_request`].

use std::sync::Arc;
use std::time::Duration;

use muster_bus::{Bus, Bytes};
use muster_wire::identity::Identity;
use muster_wire::stored_request::{RequestReference, StoredRequestError};
use muster_wire::stores::REQUESTS_BUCKET;
use muster_wire::subject::AnswerAddress;
use tokio::sync::Semaphore;

/// Reads at the same time. Beyond them, callers are asked for the request itself.
const MAX_CONCURRENT_READS: usize = 256;
/// Pauses before the reads: a replica of the bucket may have the request a little later than the reference arrives.
const READ_DELAYS: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_millis(20),
    Duration::from_millis(80),
    Duration::from_millis(300),
    Duration::from_millis(600),
];

#[derive(Debug, Clone)]
pub(crate) struct StoredRequestReader {
    bus: Bus,
    node: Identity,
    permits: Arc<Semaphore>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum StoredReadError {
    #[error("{MAX_CONCURRENT_READS} requests are being read already")]
    Busy,
    #[error("the broker has no such request")]
    Missing,
    #[error(transparent)]
    Bucket(#[from] muster_bus::BucketError),
    #[error(transparent)]
    Decrypt(#[from] StoredRequestError),
}

impl StoredRequestReader {
    pub(crate) fn new(bus: Bus, node: Identity) -> Self {
        Self { bus, node, permits: Arc::new(Semaphore::new(MAX_CONCURRENT_READS)) }
    }

    pub(crate) async fn read_request(
        &self,
        reference: &RequestReference,
    ) -> Result<Bytes, StoredReadError> {
        let _permit = self.permits.try_acquire().map_err(|_| StoredReadError::Busy)?;
        let bucket = self.bus.bucket(REQUESTS_BUCKET.name);
        let key = reference.bucket_key();
        for delay in READ_DELAYS {
            tokio::time::sleep(delay).await;
            if let Some(value) = bucket.get(&key).await?.and_then(|entry| entry.value) {
                return Ok(reference.decrypt_request(&value)?.into());
            }
        }
        Err(StoredReadError::Missing)
    }

    /// Asks the caller to send the request itself, by an empty message. It is not signed: the node does not know yet which caller it answers.
    pub(crate) async fn request_whole(&self, reply_to: Option<&str>) {
        let Some(reply_to) = reply_to.filter(|to| AnswerAddress::is_of_node(to, &self.node)) else {
            return;
        };
        if let Err(error) = self.bus.publish(reply_to, Bytes::new()).await {
            tracing::debug!(%error, "cannot ask for the request itself");
        }
    }
}
