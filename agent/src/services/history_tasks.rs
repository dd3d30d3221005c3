//! Delivers the journal of what happened on the node to the fleet's history: at once while the broker is there, the rest in order when it is back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_api::base::error_chain;
use muster_api::{HistorySink as _, LogThrottle};
use muster_bus::{BucketError, Bus};
use muster_node::core::DaemonCore;
use muster_node::core::history::PendingRecords;
use muster_node::trust::node_trust::NodeTrust;
use muster_wire::compressed::CompressedJsonError;
use muster_wire::history::{HistoryBatch, compress_records};
use muster_wire::sign::{EnvelopeKind, EnvelopeSignError, sign_envelope};
use muster_wire::stores::HISTORY_BUCKET;
use muster_wire::token::ServiceRight;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

/// Pause after an error; doubled up to the longest one.
const RETRY_DELAY: Duration = Duration::from_secs(1);
const MAX_RETRY_DELAY: Duration = Duration::from_mins(1);
/// Without a record for this time, the position is stored.
const IDLE_DELAY: Duration = Duration::from_secs(1);
/// Shortest time between two warnings.
const WARNING_INTERVAL: Duration = Duration::from_hours(1);
/// How often it is read from the account token whether the fleet has a history. What happens before is not recorded.
const TRUST_INTERVAL: Duration = Duration::from_secs(2);
/// How often it is read whether it still has one.
const END_INTERVAL: Duration = Duration::from_secs(30);

#[derive(Debug, thiserror::Error)]
enum DeliveryError {
    #[error("cannot read the journal")]
    Journal(#[from] std::io::Error),
    #[error("cannot compress the records")]
    Compress(#[from] CompressedJsonError),
    #[error("cannot sign the records")]
    Sign(#[from] EnvelopeSignError),
    #[error("the broker does not store the records")]
    Store(#[from] BucketError),
}

/// Whether the fleet has a history, according to the account token.
pub(crate) fn has_history(trust: &NodeTrust) -> bool {
    let account = trust.account.get();
    account.services_for(ServiceRight::History.as_str()).next().is_some()
}

/// Delivers what is recorded, for the daemon's lifetime.
pub(crate) async fn deliver_history(core: Arc<DaemonCore>, bus: Bus) {
    let (mut delay, failures) = (RETRY_DELAY, LogThrottle::new(WARNING_INTERVAL));
    loop {
        let journal = &core.journals.history;
        journal.set_wanted(has_history(&core.trust));
        if !journal.is_wanted() {
            sleep(TRUST_INTERVAL).await;
            continue;
        }
        bus.wait_connected().await;
        match deliver_pending(&core, &bus).await {
            Ok(()) => {
                delay = RETRY_DELAY;
                wait_changed(&core).await;
            }
            Err(error) => {
                let error = error_chain(&error);
                // An election of the broker takes some seconds.
                if delay == MAX_RETRY_DELAY && failures.admit(Instant::now()).is_some() {
                    tracing::warn!(
                        error,
                        "cannot deliver the history of the node; it stays on the disk"
                    );
                } else {
                    tracing::debug!(error, "cannot deliver the history of the node; trying again");
                }
                sleep(delay).await;
                delay = (delay * 2).min(MAX_RETRY_DELAY);
            }
        }
    }
}

/// Waits for a record. How far was delivered is stored when there is none for a moment, because each store is a synced write.
async fn wait_changed(core: &Arc<DaemonCore>) {
    let journal = &core.journals.history;
    if timeout(IDLE_DELAY, journal.changed()).await.is_ok() {
        return;
    }
    let own = Arc::clone(core);
    if let Err(error) = blocking(move || own.journals.history.store_position()).await {
        tracing::warn!(%error, "cannot store how far the history was delivered; the rest is delivered again");
    }
    // Timeouts only read the token again.
    let _ = timeout(END_INTERVAL, journal.changed()).await;
}

/// Delivers everything that waits. A message whose storage is not confirmed is sent again; the history knows the numbers.
async fn deliver_pending(core: &Arc<DaemonCore>, bus: &Bus) -> Result<(), DeliveryError> {
    let bucket = bus.bucket(HISTORY_BUCKET.name);
    while let Some(pending) = read_pending(core).await? {
        let (records, count) = compress_records(&pending.records)?;
        let signer = &core.trust.signer;
        let batch = HistoryBatch {
            sender: signer.identity().clone(),
            segment: pending.segment,
            previous: pending.previous,
            records,
        };
        let bytes = sign_envelope(EnvelopeKind::History, &batch, signer)?;
        bucket.put(signer.identity().as_str(), bytes.into()).await?;
        core.journals.history.confirm(&pending, count);
    }
    Ok(())
}

async fn read_pending(core: &Arc<DaemonCore>) -> Result<Option<PendingRecords>, DeliveryError> {
    let own = Arc::clone(core);
    Ok(blocking(move || own.journals.history.read_pending()).await?)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> std::io::Result<T> {
    spawn_blocking(work).await.map_err(std::io::Error::other)?
}
