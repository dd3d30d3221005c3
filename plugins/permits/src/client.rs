//! Acquires permits: writes a wait entry, watches the pool, and claims a place when it is this node's turn.

use muster_api::base::duration_millis;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use muster_api::wire::Millis;
use muster_api::wire::identity::{Identity, SubjectName};
use muster_api::wire::stores::{MAX_PERMIT_SLOTS, PERMITS_BUCKET};
use muster_bus::{Bucket, BucketError, BucketWatch, Bus};
use tokio::sync::{OnceCell, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::DEFAULT_LEASE;
use crate::permit::{AcquiredClaim, Permit, PermitRegistration, PermitRenewal};
use crate::permit_request::PermitRequest;
use crate::pool::PoolMember;
use crate::record::{PermitKeyKind, WaitRecord, parse_pool_name};
use crate::slots::SlotAllocator;
use crate::watched_pool::{MAX_POLL_INTERVAL, WatchedPool};

/// Why no permit was acquired.
#[derive(Debug, thiserror::Error)]
pub enum PermitError {
    /// The daemon has no broker connection.
    #[error("not connected to the broker, which stores the permits")]
    NotConnected,
    /// Reading or writing the pool's entries failed.
    #[error("cannot read or write the entries of the pool {pool}")]
    Store {
        /// The pool.
        pool: SubjectName,
        /// The cause.
        #[source]
        source: BucketError,
    },
    /// Opening the bucket failed.
    #[error("cannot open the bucket of permits")]
    Open {
        /// The cause.
        #[source]
        source: BucketError,
    },
    /// All permit slots of this node are in use.
    #[error(
        "no permit of the pool {pool}: this node already takes part in {MAX_PERMIT_SLOTS} pools, the maximum"
    )]
    TooManyPools {
        /// The pool.
        pool: SubjectName,
    },
    /// The pool stayed full for the whole wait.
    #[error("no permit of the pool {pool} within {} s; current holders: {holders}", timeout.as_secs())]
    Full {
        /// The pool.
        pool: SubjectName,
        /// How long the request waited.
        timeout: Duration,
        /// Names of the last known holders.
        holders: String,
    },
    /// The caller cancelled the request.
    #[error("cancelled while waiting for a permit of the pool {pool}")]
    Cancelled {
        /// The pool.
        pool: SubjectName,
    },
}

impl PermitError {
    /// Whether permits cannot be read or written, or the node takes part in too many pools. A run without a limit of its own does not depend on that.
    pub fn is_store_failure(&self) -> bool {
        !matches!(self, Self::Full { .. } | Self::Cancelled { .. })
    }
}

/// Acquires permits for this node in any pool. Clones share their state.
#[derive(Debug, Clone)]
pub struct PermitClient {
    node: Identity,
    bus: Arc<watch::Sender<Option<Bus>>>,
    bucket: Arc<OnceCell<Bucket>>,
    slots: SlotAllocator,
    lost_tokens: Arc<Mutex<BTreeMap<(SubjectName, Uuid), CancellationToken>>>,
    pool_locks: Arc<Mutex<HashMap<SubjectName, Arc<tokio::sync::Mutex<()>>>>>,
}

impl PermitClient {
    /// Creates a client without a broker connection; see [`PermitClient::connect`].
    pub fn new(node: Identity) -> Self {
        Self {
            node,
            bus: Arc::new(watch::Sender::new(None)),
            bucket: Arc::default(),
            slots: SlotAllocator::default(),
            lost_tokens: Arc::default(),
            pool_locks: Arc::default(),
        }
    }

    /// Sets the broker connection. The bucket is opened by the first permit request.
    pub fn connect(&self, bus: Bus) {
        self.bus.send_replace(Some(bus));
    }

    /// Whether the daemon has had a connection to the broker.
    pub fn is_connected(&self) -> bool {
        self.bus.borrow().is_some()
    }

    /// Waits for a place in the pool. Removes the written entries if no place was acquired.
    pub async fn acquire_permit(
        &self,
        request: PermitRequest,
        cancel: &CancellationToken,
    ) -> Result<Permit, PermitError> {
        let pool = request.pool.clone();
        let pool_lock = self.pool_mutex(&pool);
        let deadline = Instant::now() + request.timeout;
        let mut last_claims = Vec::new();
        let acquisition = async {
            let pool_guard = pool_lock.lock_owned().await;
            let registration =
                self.allocate_registration(&pool, request.run, request.lease).await?;
            let mut registration_guard = RegistrationGuard(Some(registration.clone()));
            let attempt = AcquireAttempt {
                limit: request.limit.get(),
                priority: request.priority,
                rollout: request.rollout,
            };
            let acquired = attempt.wait_for_permit(&registration, &mut last_claims).await;
            let acquired = acquired.map_err(store_error(&pool))?;
            registration_guard.0 = None;
            Ok((registration, acquired, pool_guard))
        };
        let (registration, acquired, pool_guard) = tokio::select! {
            acquired = acquisition => acquired?,
            () = tokio::time::sleep_until(deadline) => return Err(pool_full_error(&request, &last_claims)),
            () = cancel.cancelled() => return Err(PermitError::Cancelled { pool }),
        };
        let lost = self.track_permit(&pool, request.run);
        let renewal = PermitRenewal { lost, on_loss: request.on_loss };
        Ok(Permit::with_renewal(registration, acquired, pool_guard, renewal))
    }

    /// Takes a place for a run that is in progress already, without waiting. The claim counts even if the pool is full.
    pub async fn occupy_permit(&self, request: &PermitRequest) -> Result<Permit, PermitError> {
        let PermitRequest { pool, limit, priority, run, lease, on_loss, .. } = request;
        let (run, on_loss) = (*run, *on_loss);
        let pool_guard = self.pool_mutex(pool).lock_owned().await;
        let registration = self.allocate_registration(pool, run, *lease).await?;
        let sent_at = Instant::now();
        let claimed = registration.put_claim(*priority, limit.get(), true).await;
        let fence = claimed.map_err(store_error(pool))?;
        let acquired = AcquiredClaim { fence, renewed_at: sent_at, watched: None };
        let renewal = PermitRenewal { lost: self.track_permit(pool, run), on_loss };
        Ok(Permit::with_renewal(registration, acquired, pool_guard, renewal))
    }

    /// Returns the broker's time, the current holders and the current waiters of a pool.
    pub async fn inspect_pool(
        &self,
        pool: &SubjectName,
    ) -> Result<(Millis, Vec<PoolMember>, Vec<PoolMember>), PermitError> {
        let bucket = self.get_bucket().await?;
        let entries = async {
            // The broker's time is known only from received entries, so write one, unless this node already sends heartbeats in the pool.
            if !self.is_pool_in_use(pool)
                && let Ok(registration) =
                    self.allocate_registration(pool, Uuid::nil(), DEFAULT_LEASE).await
            {
                registration.send_heartbeat().await;
                bucket.delete(&registration.entry_key(PermitKeyKind::Beat)).await?;
            }
            let mut watch = bucket.watch(">").await?;
            let mut state = WatchedPool::new(pool.clone());
            while !watch.is_current() && state.apply_next_entry(&mut watch).await? {}
            Ok(state)
        };
        let state = entries.await.map_err(store_error(pool))?;
        let at = state.broker_time();
        Ok((at, state.pool.live_claims(at), state.pool.waiting_members(at)))
    }

    /// Names of all pools that have an entry in the bucket.
    pub async fn list_pools(&self) -> Result<Vec<SubjectName>, PermitError> {
        let bucket = self.get_bucket().await?;
        let entries = bucket.list(">").await.map_err(|source| PermitError::Open { source })?;
        let values = entries.iter().filter_map(|entry| entry.value.as_deref());
        let names: BTreeSet<SubjectName> = values.filter_map(parse_pool_name).collect();
        Ok(names.into_iter().collect())
    }

    /// Cancels this node's permits of a pool, or only that of `run`, which stops their runs. Returns how many were cancelled.
    pub fn revoke_permits(&self, pool: &SubjectName, run: Option<Uuid>) -> usize {
        let tokens = self.held_tokens(pool, run);
        tokens.iter().for_each(CancellationToken::cancel);
        tokens.len()
    }

    /// Returns how many permits [`PermitClient::revoke_permits`] would cancel.
    pub fn count_permits(&self, pool: &SubjectName, run: Option<Uuid>) -> usize {
        self.held_tokens(pool, run).len()
    }

    fn held_tokens(&self, pool: &SubjectName, run: Option<Uuid>) -> Vec<CancellationToken> {
        let lost_tokens = self.lost_tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let matching = lost_tokens.iter().filter(|((held_pool, held_run), lost)| {
            held_pool == pool && run.is_none_or(|run| run == *held_run) && !lost.is_cancelled()
        });
        matching.map(|(_, lost)| lost.clone()).collect()
    }

    fn is_pool_in_use(&self, pool: &SubjectName) -> bool {
        let pool_locks = self.pool_locks.lock().unwrap_or_else(PoisonError::into_inner);
        pool_locks.get(pool).is_some_and(|pool_lock| pool_lock.try_lock().is_err())
    }

    /// Registers a permit so that [`PermitClient::revoke_permits`] can cancel it; replaces an earlier one of the same pool.
    fn track_permit(&self, pool: &SubjectName, run: Uuid) -> CancellationToken {
        let lost = CancellationToken::new();
        let mut lost_tokens = self.lost_tokens.lock().unwrap_or_else(PoisonError::into_inner);
        lost_tokens.retain(|(held_pool, _), _| held_pool != pool);
        lost_tokens.insert((pool.clone(), run), lost.clone());
        lost
    }

    fn pool_mutex(&self, pool: &SubjectName) -> Arc<tokio::sync::Mutex<()>> {
        let mut pool_locks = self.pool_locks.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(pool_locks.entry(pool.clone()).or_default())
    }

    async fn get_bucket(&self) -> Result<Bucket, PermitError> {
        let bucket = self.bucket.get_or_try_init(|| self.open_bucket()).await;
        bucket.cloned()
    }

    /// Opens the bucket, and deletes the entries that an earlier process of this node left.
    async fn open_bucket(&self) -> Result<Bucket, PermitError> {
        let mut connections = self.bus.subscribe();
        let connected =
            tokio::time::timeout(MAX_POLL_INTERVAL, connections.wait_for(Option::is_some)).await;
        let bus = connected.ok().and_then(Result::ok).and_then(|bus| bus.clone());
        let bus = bus.ok_or(PermitError::NotConnected)?;
        let opened = async {
            let bucket = bus.bucket(PERMITS_BUCKET.name);
            for entry in bucket.list(&format!("*.*.{}", self.node)).await? {
                bucket.delete(&entry.key).await?;
            }
            Ok(bucket)
        };
        opened.await.map_err(|source| PermitError::Open { source })
    }

    async fn allocate_registration(
        &self,
        pool: &SubjectName,
        run: Uuid,
        lease: Duration,
    ) -> Result<PermitRegistration, PermitError> {
        let bucket = self.get_bucket().await?;
        let too_many = || PermitError::TooManyPools { pool: pool.clone() };
        Ok(PermitRegistration {
            bucket,
            pool: pool.clone(),
            slot: self.slots.allocate_slot().ok_or_else(too_many)?,
            node: self.node.clone(),
            run,
            lease,
        })
    }
}

/// Removes the written entries on drop, whatever ends the wait.
struct RegistrationGuard(Option<PermitRegistration>);

impl Drop for RegistrationGuard {
    fn drop(&mut self) {
        if let Some(registration) = self.0.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move { registration.remove_entries().await });
        }
    }
}

/// One attempt to get a place.
struct AcquireAttempt {
    limit: u32,
    priority: i8,
    rollout: Option<Uuid>,
}

impl AcquireAttempt {
    /// Waits for a place.
    async fn wait_for_permit(
        &self,
        registration: &PermitRegistration,
        last_claims: &mut Vec<PoolMember>,
    ) -> Result<AcquiredClaim, BucketError> {
        let mut watch = registration.bucket.watch(">").await?;
        let mut state = WatchedPool::new(registration.pool.clone());
        let mut renewed_at = Instant::now();
        let wait = WaitRecord {
            pool: registration.pool.clone(),
            run: registration.run,
            priority: self.priority,
            limit: self.limit,
            lease: duration_millis(registration.lease),
            rollout: self.rollout,
        };
        let own_revision = registration.put_entry(PermitKeyKind::Wait, &wait).await?;
        loop {
            // Decide only after the watch has delivered our own entry: then all earlier entries are applied too.
            while state.pool.revision() < own_revision || !watch.is_current() {
                state.require_next_entry(&mut watch).await?;
            }
            *last_claims = state.pool.live_claims(state.broker_time());
            if state.pool.is_turn_of(&registration.node, state.broker_time()) {
                renewed_at = Instant::now();
                if let Some(fence) = self.try_claim(registration, &mut state, &mut watch).await? {
                    return Ok(AcquiredClaim { fence, renewed_at, watched: Some((state, watch)) });
                }
            }
            if renewed_at.elapsed() >= registration.lease / 3 {
                let sent_at = Instant::now();
                if registration.send_heartbeat().await {
                    renewed_at = sent_at;
                }
            }
            let poll_timeout = state.poll_delay().min(registration.lease / 3);
            if let Ok(applied) =
                tokio::time::timeout(poll_timeout, state.require_next_entry(&mut watch)).await
            {
                applied?;
            }
        }
    }

    /// Writes a claim and checks by its rank among the claims whether it holds a place; deletes a claim that came too late.
    async fn try_claim(
        &self,
        registration: &PermitRegistration,
        state: &mut WatchedPool,
        watch: &mut BucketWatch,
    ) -> Result<Option<u64>, BucketError> {
        let own_revision = registration.put_claim(self.priority, self.limit, false).await?;
        while state.pool.revision() < own_revision {
            state.require_next_entry(watch).await?;
        }
        // The wait entry stays until the claim holds a place, so that a claim that came too late keeps its rank among the waiters.
        let fence = state.pool.held_fence(&registration.node, state.broker_time());
        let ended = if fence.is_some() { PermitKeyKind::Wait } else { PermitKeyKind::Claim };
        registration.bucket.delete(&registration.entry_key(ended)).await?;
        Ok(fence)
    }
}

fn pool_full_error(request: &PermitRequest, claims: &[PoolMember]) -> PermitError {
    let names: Vec<&str> = claims.iter().map(|claim| claim.node.as_str()).collect();
    PermitError::Full {
        pool: request.pool.clone(),
        timeout: request.timeout,
        holders: if names.is_empty() {
            "none, but other nodes are ahead in the queue".to_owned()
        } else {
            names.join(", ")
        },
    }
}

fn store_error(pool: &SubjectName) -> impl FnOnce(BucketError) -> PermitError {
    let pool = pool.clone();
    move |source| PermitError::Store { pool, source }
}
