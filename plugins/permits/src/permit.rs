//! A held permit: renewed in the background, released at the end, and lost when heartbeats do not reach the broker.

use std::time::Duration;

use muster_api::wire::identity::{Identity, SubjectName};
use muster_bus::{Bucket, Bytes};
use tokio::sync::OwnedMutexGuard;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::record::PermitKeyKind;
use crate::slots::AllocatedSlot;

/// A place in a pool. Release it with [`Permit::release`]; on drop it is released in the background.
#[derive(Debug)]
pub struct Permit {
    fence: u64,
    place: Option<PermitRegistration>,
    lost: CancellationToken,
    renewal: JoinHandle<()>,
    /// Serialises this node's runs of the same pool.
    turn: Option<OwnedMutexGuard<()>>,
}

/// Identifies the entries of one node and run in one pool.
#[derive(Debug, Clone)]
pub(crate) struct PermitRegistration {
    pub(crate) bucket: Bucket,
    pub(crate) pool: SubjectName,
    pub(crate) slot: AllocatedSlot,
    pub(crate) node: Identity,
    pub(crate) run: Uuid,
    pub(crate) lease: Duration,
}

impl Permit {
    /// Wraps a confirmed place and starts its renewal. `proven` is when the last heartbeat that the broker accepted was sent.
    pub(crate) fn with_renewal(
        place: PermitRegistration,
        fence: u64,
        proven: Instant,
        turn: OwnedMutexGuard<()>,
        lost: CancellationToken,
    ) -> Self {
        Self {
            fence,
            renewal: tokio::spawn(renew_until_lost(place.clone(), proven, lost.clone())),
            place: Some(place),
            lost,
            turn: Some(turn),
        }
    }

    /// The claim's revision: larger than that of every earlier permit of the pool.
    pub fn fence(&self) -> u64 {
        self.fence
    }

    /// Cancelled before the permit expires. The run must end within the last third of the lease, because another node may start after that.
    pub fn lost_token(&self) -> &CancellationToken {
        &self.lost
    }

    /// Releases the place, and returns when the broker has confirmed it. If the broker cannot be reached, the place expires with the lease.
    pub async fn release(mut self) {
        self.renewal.abort();
        if let Some(place) = self.place.take() {
            place.remove_entries().await;
        }
        self.turn = None;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.renewal.abort();
        let turn = self.turn.take();
        if let Some(place) = self.place.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move {
                place.remove_entries().await;
                drop(turn);
            });
        }
    }
}

impl PermitRegistration {
    pub(crate) fn entry_key(&self, sign: PermitKeyKind) -> String {
        sign.entry_key(self.slot.number(), &self.node)
    }

    /// Writes a heartbeat; returns whether the broker accepted it.
    pub(crate) async fn send_heartbeat(&self) -> bool {
        let value = Bytes::from(self.run.to_string());
        self.bucket
            .put(&self.entry_key(PermitKeyKind::Beat), value)
            .await
            .is_ok()
    }

    /// Deletes all entries of this registration.
    pub(crate) async fn remove_entries(&self) {
        for sign in [
            PermitKeyKind::Claim,
            PermitKeyKind::Wait,
            PermitKeyKind::Beat,
        ] {
            if let Err(error) = self.bucket.delete(&self.entry_key(sign)).await {
                tracing::warn!(%error, pool = %self.pool, "cannot release a permit; it expires with its lease");
                return;
            }
        }
    }
}

/// Sends a heartbeat every third of the lease, and cancels `lost` when the broker no longer accepts them in time.
async fn renew_until_lost(place: PermitRegistration, mut proven: Instant, lost: CancellationToken) {
    let pause = place.lease / 3;
    loop {
        tokio::time::sleep(pause).await;
        let sent = Instant::now();
        if let Ok(true) = tokio::time::timeout(pause, place.send_heartbeat()).await {
            proven = sent;
        }
        // Cancel after two thirds of the lease: the run has the last third to stop.
        if proven.elapsed() >= pause * 2 {
            tracing::error!(pool = %place.pool, run = %place.run, "permit lost: it could not be renewed in time");
            lost.cancel();
            return;
        }
    }
}
