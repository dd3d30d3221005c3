//! Acquires permits for this node: allocates a slot, waits for a place until the deadline, and removes what was written in vain.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use muster_api::wire::Millis;
use muster_api::wire::identity::{Identity, SubjectName};
use muster_api::wire::stores::{MAX_PERMIT_SLOTS, PERMITS_BUCKET};
use muster_bus::{Bucket, BucketError, Bus};
use tokio::sync::{OnceCell, watch};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::permits::acquisition::AcquireAttempt;
use crate::permits::permit::{AcquiredClaim, Permit};
use crate::permits::permit_keeper::PermitRenewal;
use crate::permits::permit_request::{DEFAULT_LEASE, PermitRequest};
use crate::permits::pool::PoolMember;
use crate::permits::record::{PermitKeyKind, parse_pool_name};
use crate::permits::registration::{PermitRegistration, PlaceTerms};
use crate::permits::slots::SlotAllocator;
use crate::permits::wait_progress::{StorePatience, WaitProgress};
use crate::permits::watched_pool::{MAX_POLL_INTERVAL, WatchedPool};

/// How long inspections of pools, and claims of runs in progress, wait for the bucket: longer than elections take.
const STORE_TIMEOUT: Duration = Duration::from_secs(15);

#[derive(Debug, thiserror::Error)]
pub enum PermitError {
    #[error("not connected to the broker, which stores the permits")]
    NotConnected,
    #[error("cannot read or write the entries of the pool {pool}")]
    Store {
        pool: SubjectName,
        #[source]
        source: BucketError,
    },
    #[error("cannot open the bucket of permits")]
    Open {
        #[source]
        source: BucketError,
    },
    #[error(
        "no permit of the pool {pool}: this node already takes part in {MAX_PERMIT_SLOTS} pools, the maximum"
    )]
    TooManyPools { pool: SubjectName },
    /// No server served the bucket, up to the end of the wait.
    #[error(
        "no permit of the pool {pool}: no server of the broker has served the bucket {} for {} s; check that a majority of its servers runs with JetStream, \
         then run `rpc org push` if the bucket does not exist",
        PERMITS_BUCKET.name,
        silence.as_secs()
    )]
    Unavailable { pool: SubjectName, silence: Duration },
    #[error("no permit of the pool {pool} within {} s; current holders: {holders}", timeout.as_secs())]
    Full {
        pool: SubjectName,
        /// How long the request waited.
        timeout: Duration,
        /// Names of the last known holders.
        holders: String,
    },
    #[error("cancelled while waiting for a permit of the pool {pool}")]
    Cancelled { pool: SubjectName },
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
    /// The last wait found no bucket.
    is_bucket_absent: Arc<AtomicBool>,
    /// See [`PermitClient::broker_clock_offsets`].
    clock_offset: Arc<watch::Sender<i64>>,
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
            is_bucket_absent: Arc::default(),
            clock_offset: Arc::default(),
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

    /// How far the broker's clock is ahead of this node's, in milliseconds, as measured by the last wait; negative if it is behind. It is the clock of
    /// the server that led the bucket then.
    pub fn broker_clock_offsets(&self) -> watch::Receiver<i64> {
        self.clock_offset.subscribe()
    }

    /// Waits for a place in the pool. Removes the written entries if no place was acquired.
    pub async fn acquire_permit(
        &self,
        request: PermitRequest,
        cancel: &CancellationToken,
    ) -> Result<Permit, PermitError> {
        let pool = request.pool.clone();
        let deadline = Instant::now() + request.timeout;
        let progress = WaitProgress::default();
        tokio::select! {
            permit = self.wait_for_place(&request, &progress) => {
                self.is_bucket_absent.store(false, Ordering::Relaxed);
                permit
            }
            () = tokio::time::sleep_until(deadline) => Err(deadline_error(&request, &progress)),
            () = progress.until_silent(self.store_patience(&request)) => {
                self.is_bucket_absent.store(true, Ordering::Relaxed);
                Err(PermitError::Unavailable { pool, silence: progress.notable_silence().unwrap_or_default() })
            }
            () = cancel.cancelled() => Err(PermitError::Cancelled { pool }),
        }
    }

    async fn wait_for_place(
        &self,
        request: &PermitRequest,
        progress: &WaitProgress,
    ) -> Result<Permit, PermitError> {
        let PermitRequest { pool, run, lease, on_loss, .. } = request;
        let pool_guard = self.pool_mutex(pool).lock_owned().await;
        progress.record_begin();
        let registration = self.allocate_registration(pool, *run, *lease).await?;
        let mut registration_guard = RegistrationGuard(Some(registration.clone()));
        let terms = place_terms(request);
        let clock_offset = &self.clock_offset;
        let attempt = AcquireAttempt { registration: &registration, terms, progress, clock_offset };
        let acquired = attempt.wait_for_permit().await.map_err(store_error(pool))?;
        registration_guard.0 = None;
        let renewal = PermitRenewal { lost: self.track_permit(pool, *run), on_loss: *on_loss };
        Ok(Permit::start_keeping(registration, acquired, terms, pool_guard, renewal))
    }

    /// Takes a place for a run that is in progress already, without waiting. The claim counts even if the pool is full.
    pub async fn occupy_permit(&self, request: &PermitRequest) -> Result<Permit, PermitError> {
        let PermitRequest { pool, run, lease, on_loss, .. } = request;
        let pool_guard = self.pool_mutex(pool).lock_owned().await;
        let patience =
            self.store_patience(request).first.unwrap_or(STORE_TIMEOUT).min(STORE_TIMEOUT);
        let terms = place_terms(request);
        let claiming = async {
            let registration = self.allocate_registration(pool, *run, *lease).await?;
            let mut registration_guard = RegistrationGuard(Some(registration.clone()));
            let renewed_at = Instant::now();
            let claimed = registration.put_claim(terms, true).await;
            let fence = claimed.map_err(store_error(pool))?;
            registration_guard.0 = None;
            Ok((registration, AcquiredClaim { fence, renewed_at, watched: None }))
        };
        let claimed = timeout(patience, claiming).await;
        let unavailable = |_| PermitError::Unavailable { pool: pool.clone(), silence: patience };
        let (registration, acquired) = claimed.map_err(unavailable)??;
        let renewal = PermitRenewal { lost: self.track_permit(pool, *run), on_loss: *on_loss };
        Ok(Permit::start_keeping(registration, acquired, terms, pool_guard, renewal))
    }

    fn store_patience(&self, request: &PermitRequest) -> StorePatience {
        let is_limited = request.limit != NonZeroU32::MAX;
        let has_jetstream = self.bus.borrow().as_ref().is_none_or(Bus::has_jetstream);
        StorePatience::new(is_limited, has_jetstream, self.is_bucket_absent.load(Ordering::Relaxed))
    }

    /// Returns the broker's time, the current holders and the current waiters of a pool.
    pub async fn inspect_pool(
        &self,
        pool: &SubjectName,
    ) -> Result<(Millis, Vec<PoolMember>, Vec<PoolMember>), PermitError> {
        let bucket = self.get_bucket_in_time().await?;
        let entries = async {
            // The broker's time is known only from received entries, so write one, unless this node already sends heartbeats in the pool.
            if !self.is_pool_in_use(pool)
                && let Ok(registration) =
                    self.allocate_registration(pool, Uuid::nil(), DEFAULT_LEASE).await
            {
                let key = PermitKeyKind::Beat.entry_key(registration.slot.number(), &self.node);
                bucket.put(&key, Uuid::nil().to_string().into()).await?;
                bucket.delete(&key).await?;
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
        let bucket = self.get_bucket_in_time().await?;
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

    /// The bucket, if it can be opened within [`STORE_TIMEOUT`].
    async fn get_bucket_in_time(&self) -> Result<Bucket, PermitError> {
        let missing =
            |_| PermitError::Open { source: BucketError::Missing(PERMITS_BUCKET.name.to_owned()) };
        timeout(STORE_TIMEOUT, self.get_bucket()).await.map_err(missing)?
    }

    /// Opens the bucket, and deletes the entries that an earlier process of this node left, however long that takes.
    async fn open_bucket(&self) -> Result<Bucket, PermitError> {
        let mut connections = self.bus.subscribe();
        let connected = timeout(MAX_POLL_INTERVAL, connections.wait_for(Option::is_some)).await;
        let bus = connected.ok().and_then(Result::ok).and_then(|bus| bus.clone());
        let bus = bus.ok_or(PermitError::NotConnected)?;
        let opened = async {
            let bucket = bus.bucket(PERMITS_BUCKET.name);
            let own_entries = format!("*.*.{}", self.node);
            for entry in bucket.retry_until_dropped().list(&own_entries).await? {
                bucket.owned_key(entry.key).delete().await?;
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
        let slot = self.slots.allocate_slot().ok_or_else(too_many)?;
        let (pool, node) = (pool.clone(), self.node.clone());
        Ok(PermitRegistration::new(&bucket, pool, slot, node, run, lease))
    }
}

fn place_terms(request: &PermitRequest) -> PlaceTerms {
    let PermitRequest { limit, priority, rollout, .. } = *request;
    PlaceTerms { limit: limit.get(), priority, rollout }
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

/// The error at the end of the wait: the bucket was not available, or the pool stayed full.
fn deadline_error(request: &PermitRequest, progress: &WaitProgress) -> PermitError {
    let pool = request.pool.clone();
    if let Some(silence) = progress.notable_silence() {
        return PermitError::Unavailable { pool, silence };
    }
    let claims = progress.last_claims();
    let names: Vec<&str> = claims.iter().map(|claim| claim.node.as_str()).collect();
    PermitError::Full {
        pool,
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
