//! Keeps the account token of a running daemon current: reads it from the fleet's trust bucket before the daemon serves, after each reconnect, when
//! the bucket's head changes, and at intervals. Reads the node's own renewed token from the bucket too, when renewal is due and while the key that
//! signs nodes is being rotated.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use muster_base::error_chain;
use muster_bus::{
    BucketError, Bus, BusEvent, BusMessage, BusSubscription, ReconnectBackoff, TrustLookupError,
};
use muster_wire::sign::SignerRenewError;
use muster_wire::stores::{TOKENS_BUCKET, TRUST_BUCKET, TRUST_HEAD_KEY};
use muster_wire::token::TokenError;
use muster_wire::token::head::AccountHead;
use muster_wire::{limits, subject};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::trust::freshness::LookupProblem;
use crate::trust::node_trust::{NodeTokenRenewalError, NodeTrust};

/// Pauses between reads after an announcement, in milliseconds. Any server of a cluster answers reads, and one that lags answers with the
/// previous head. They grow, because all nodes read: a token that no node accepts must not cost the broker a read per node each moment.
const ANNOUNCED_READ_PAUSES: [u64; 6] = [200, 400, 800, 1_600, 3_200, 6_400];

/// Pause before a read that returned an older token is repeated. A server of a cluster may lag; a bucket that lost data stays behind.
const BEHIND_RECHECK: Duration = Duration::from_secs(2);

/// Number of checks for a renewed token during the lifetime of the node's own token.
const CHECKS_PER_LIFETIME: u64 = 24;

/// The nodes of a fleet spread their reads of an announced token over this time, for each 32 KiB of it.
const SPREAD_PER_BLOCK: Duration = Duration::from_secs(1);
const SPREAD_BLOCK_BYTES: u64 = 32 * 1024;
const MAX_SPREAD: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenChange {
    Account(String),
    Node(String),
    /// The current account token was confirmed as the newest. Sent only if a maximum age is set.
    Confirmed,
}

/// Why a renewed token of the node was not accepted.
#[derive(Debug, thiserror::Error)]
enum TokenUpdateError {
    #[error(transparent)]
    Store(#[from] BucketError),
    #[error("the token has {0} bytes; the limit is {limit}", limit = limits::MAX_USER_TOKEN_BYTES)]
    Oversized(usize),
    #[error(transparent)]
    Renewal(#[from] NodeTokenRenewalError),
}

/// Puts a newer account token in force, or says why it cannot be used.
pub(crate) type AccountUpdate = Box<dyn Fn(&str) -> Result<(), TokenError> + Send + Sync>;

/// Keeps the tokens of one daemon current.
pub(crate) struct TrustSync {
    trust: Arc<NodeTrust>,
    update_account: AccountUpdate,
    bus: Bus,
    /// Accepted tokens, to be written to disk.
    changed: mpsc::Sender<TokenChange>,
    heads: Option<BusSubscription>,
}

impl fmt::Debug for TrustSync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrustSync").field("trust", &self.trust).finish_non_exhaustive()
    }
}

impl TrustSync {
    /// Reads the newest token and subscribes to changes. An unreadable bucket is reported and does not stop the daemon.
    pub(crate) async fn start(
        trust: Arc<NodeTrust>,
        update_account: AccountUpdate,
        bus: Bus,
        changed: mpsc::Sender<TokenChange>,
    ) -> Self {
        let subject = subject::bucket_changes(TRUST_BUCKET.name, TRUST_HEAD_KEY);
        let heads = bus.subscribe(&subject).await;
        let heads = heads.inspect_err(|error| {
            tracing::warn!(
                error = error_chain(error),
                "cannot subscribe to changes of the account token; polling instead"
            );
        });
        let sync = Self { trust, update_account, bus, changed, heads: heads.ok() };
        sync.refresh_tokens(ReadSpread::None).await;
        sync
    }

    pub(crate) async fn follow_changes(mut self, stop: CancellationToken) {
        let mut heads = self.heads.take();
        let mut events = self.bus.subscribe_events();
        loop {
            let interval = self.next_interval();
            let mut announced = None;
            let spread = tokio::select! {
                () = stop.cancelled() => return,
                head = next_head(&mut heads) => match head {
                    Some(head) => {
                        announced = AccountHead::parse(head.payload()).ok();
                        ReadSpread::BySize
                    }
                    None => continue,
                },
                event = events.recv() => match event {
                    Ok(BusEvent::Connected) | Err(RecvError::Lagged(_)) => ReadSpread::None,
                    Ok(_) => continue,
                    Err(RecvError::Closed) => return,
                },
                () = tokio::time::sleep(jittered_interval(interval)) => ReadSpread::BySize,
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.refresh_tokens(spread) => {}
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.await_announced(announced) => {}
            }
        }
    }

    /// Repeats the read until the daemon has the announced token, for a limited time.
    async fn await_announced(&self, announced: Option<AccountHead>) {
        let Some(head) = announced else { return };
        for pause in ANNOUNCED_READ_PAUSES {
            if self.trust.account.get().issued_at() >= head.serial {
                return;
            }
            tokio::time::sleep(Duration::from_millis(pause)).await;
            self.refresh_tokens(ReadSpread::BySize).await;
        }
    }

    /// Time until the next check while no change is announced. A token whose renewal is due is checked several times during its lifetime.
    fn next_interval(&self) -> Duration {
        let default_interval = self.trust.freshness.check_interval();
        match self.trust.token_life() {
            Some(life) => {
                default_interval.min(Duration::from_secs(life.lifetime / CHECKS_PER_LIFETIME + 1))
            }
            None => default_interval,
        }
    }

    async fn refresh_tokens(&self, spread: ReadSpread) {
        self.refresh_account(spread).await;
        if let Err(error) = self.take_renewed().await {
            tracing::warn!(error = error_chain(&error), "cannot renew the token of this node");
        }
    }

    async fn refresh_account(&self, spread: ReadSpread) {
        let freshness = &self.trust.freshness;
        let mut newest = self.take_newest(spread).await;
        if matches!(newest, Err(TrustLookupError::Behind { .. })) {
            tokio::time::sleep(BEHIND_RECHECK).await;
            newest = self.take_newest(spread).await;
        }
        match newest {
            Ok(updated) => {
                freshness.confirm(self.trust.clock.now());
                if freshness.has_max_age() {
                    let _ = self.changed.try_send(TokenChange::Confirmed);
                }
                if updated {
                    tracing::info!("account token updated");
                }
            }
            Err(error) => {
                let is_behind = matches!(error, TrustLookupError::Behind { .. });
                let text = error_chain(&error);
                if is_behind {
                    tracing::error!(
                        error = text,
                        "the broker has lost the newest account token; this node keeps its own"
                    );
                } else {
                    tracing::debug!(error = text, "cannot confirm the account token");
                }
                freshness.set_problem(Some(LookupProblem { text, is_behind }));
            }
        }
    }

    /// Accepts the token that the bucket names; returns whether it is newer than the current one.
    async fn take_newest(&self, spread: ReadSpread) -> Result<bool, TrustLookupError> {
        let head = self.bus.account_head().await?;
        let current = self.trust.account.get();
        if spread == ReadSpread::BySize && head.serial > current.issued_at() {
            tokio::time::sleep(spread_delay(head.bytes)).await;
        }
        let Some(newer) = self.bus.newer_account(&current, &head).await? else { return Ok(false) };
        (self.update_account)(newer.account_token()).map_err(TrustLookupError::Token)?;
        // A separate task writes to disk; it may lag behind.
        let change = TokenChange::Account(newer.account_token().to_owned());
        let _ = self.changed.try_send(change);
        Ok(true)
    }

    /// Uses the node's renewed token, if renewal is due and the new token expires later, or if another key of the role signed it.
    async fn take_renewed(&self) -> Result<(), TokenUpdateError> {
        let now = self.trust.clock.now();
        let life = self.trust.token_life();
        let is_due = life.is_some_and(|life| life.is_renewal_due(now));
        if !is_due && !self.trust.is_signing_key_rotated() {
            return Ok(());
        }
        let tokens = self.bus.bucket(TOKENS_BUCKET.name);
        let entry = tokens.get_once(self.trust.identity().as_str()).await?;
        let Some(value) = entry.and_then(|entry| entry.value) else { return Ok(()) };
        if value.len() > limits::MAX_USER_TOKEN_BYTES {
            return Err(TokenUpdateError::Oversized(value.len()));
        }
        let token = String::from_utf8_lossy(&value);
        match self.trust.renew_token(token.trim()) {
            Ok(()) => {}
            // The bucket still contains the current token.
            Err(NodeTokenRenewalError::Renew(SignerRenewError::NotLonger { .. })) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let seconds_left = life.map(|life| life.seconds_left(now));
        tracing::info!(
            seconds_left,
            "renewed the node's token before it expired or lost its signing key"
        );
        let change = TokenChange::Node(token.trim().to_owned());
        let _ = self.changed.try_send(change);
        Ok(())
    }
}

/// Whether a newer token is read immediately, or after a delay that depends on its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadSpread {
    None,
    BySize,
}

/// Returns an announced head, and `None` once when the subscription ends; never completes after that.
async fn next_head(heads: &mut Option<BusSubscription>) -> Option<BusMessage> {
    match heads {
        Some(subscription) => {
            let announced = subscription.next().await;
            if announced.is_none() {
                *heads = None;
            }
            announced
        }
        None => std::future::pending().await,
    }
}

fn spread_delay(bytes: u64) -> Duration {
    let blocks = u32::try_from(bytes / SPREAD_BLOCK_BYTES + 1).unwrap_or(u32::MAX);
    ReconnectBackoff::random_within(SPREAD_PER_BLOCK.saturating_mul(blocks).min(MAX_SPREAD))
}

/// The interval plus up to 50 % jitter, so that the nodes of a fleet do not read together.
fn jittered_interval(interval: Duration) -> Duration {
    interval + ReconnectBackoff::random_within(interval / 2)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{MAX_SPREAD, spread_delay};

    #[test]
    fn token_reads_are_spread_by_token_size() {
        for (bytes, max) in [(0, 1), (32 * 1024, 2), (u64::MAX, 30)] {
            for _ in 0..100 {
                assert!(spread_delay(bytes) <= Duration::from_secs(max).min(MAX_SPREAD));
            }
        }
    }
}
