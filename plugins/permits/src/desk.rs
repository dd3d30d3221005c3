//! Where permits are asked for: writes that this node waits, watches the pool, claims a place when it is its turn.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use muster_api::wire::Millis;
use muster_api::wire::identity::{Identity, Name};
use muster_api::wire::stores::{PERMIT_SLOTS, PERMITS};
use muster_bus::{Bucket, Bus, Bytes, StoreError, Watch};
use serde::Serialize;
use tokio::sync::{OnceCell, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::LEASE;
use crate::permit::{Permit, Place};
use crate::pool::{Party, Pool, Reckoning};
use crate::record::{Claim, Sign, Wait, pool_of};
use crate::slots::Slots;

/// Longest pause between two looks at a pool in which nothing seems to happen.
const LOOK: Duration = Duration::from_secs(5);

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The pool.
    pub pool: Name,
    /// How many nodes may hold it at once, this one included.
    pub limit: NonZeroU32,
    /// Higher goes first; 0 is usual.
    pub priority: i8,
    /// The run that it is for.
    pub run: Uuid,
    /// How long to wait for a place.
    pub patience: Duration,
    /// How long the permit lives without a sign of life; [`LEASE`] is usual.
    pub lease: Duration,
}

impl Ask {
    /// A place among so many, for this run, with the usual lease.
    pub fn new(pool: Name, limit: NonZeroU32, run: Uuid, patience: Duration) -> Self {
        Self {
            pool,
            limit,
            priority: 0,
            run,
            patience,
            lease: LEASE,
        }
    }
}

/// Why there is no permit.
#[derive(Debug, thiserror::Error)]
pub enum PermitError {
    /// The daemon has no broker.
    #[error("there is no connection to the broker, where permits are kept")]
    NotConnected,
    /// The store does not do what it should.
    #[error("the pool {pool} cannot be used")]
    Store {
        /// The pool.
        pool: Name,
        /// Why.
        #[source]
        source: StoreError,
    },
    /// The store as a whole cannot be used.
    #[error("the store of permits cannot be used")]
    Open {
        /// Why.
        #[source]
        source: StoreError,
    },
    /// The node takes part in as many pools as it can.
    #[error(
        "no permit of the pool {pool}: this node takes part in {PERMIT_SLOTS} pools already, which is the most"
    )]
    TooManyPools {
        /// The pool.
        pool: Name,
    },
    /// Others held the pool all the time.
    #[error("no permit of the pool {pool} within {} s; it is held by {holders}", patience.as_secs())]
    Full {
        /// The pool.
        pool: Name,
        /// How long was waited.
        patience: Duration,
        /// Who held it last, by name.
        holders: String,
    },
    /// Whoever asked gave up.
    #[error("gave up while waiting for a permit of the pool {pool}")]
    Cancelled {
        /// The pool.
        pool: Name,
    },
}

/// This node's way to all pools. Clones share it.
#[derive(Debug, Clone)]
pub struct Desk {
    node: Identity,
    bus: Arc<watch::Sender<Option<Bus>>>,
    bucket: Arc<OnceCell<Bucket>>,
    slots: Slots,
    held: Arc<Mutex<BTreeMap<(Name, Uuid), CancellationToken>>>,
    turns: Arc<Mutex<HashMap<Name, Arc<tokio::sync::Mutex<()>>>>>,
}

impl Desk {
    /// A desk without a broker yet.
    pub fn new(node: Identity) -> Self {
        Self {
            node,
            bus: Arc::new(watch::Sender::new(None)),
            bucket: Arc::default(),
            slots: Slots::default(),
            held: Arc::default(),
            turns: Arc::default(),
        }
    }

    /// Gives the desk its broker. Whether that has the store is found out when somebody asks for a permit.
    pub fn connect(&self, bus: Bus) {
        self.bus.send_replace(Some(bus));
    }

    /// Waits for a place. What was written is removed again when there is none.
    pub async fn enter(&self, ask: Ask, cancel: &CancellationToken) -> Result<Permit, PermitError> {
        let pool = ask.pool.clone();
        let turn = self.turn(&pool);
        let until = Instant::now() + ask.patience;
        let mut last = Vec::new();
        let entering = async {
            let turn = turn.lock_owned().await;
            let place = self.place(&pool, ask.run, ask.lease).await?;
            let mut written = Written(Some(place.clone()));
            let entry = Entry {
                limit: ask.limit.get(),
                priority: ask.priority,
            };
            let entered = entry.wait(&place, &mut last).await;
            let (fence, proven) = entered.map_err(store(&pool))?;
            written.0 = None;
            Ok((place, fence, proven, turn))
        };
        let (place, fence, proven, turn) = tokio::select! {
            entered = entering => entered?,
            () = tokio::time::sleep_until(until) => return Err(full(&ask, &last)),
            () = cancel.cancelled() => return Err(PermitError::Cancelled { pool }),
        };
        Ok(Permit::held(
            place,
            fence,
            proven,
            turn,
            self.note(&pool, ask.run),
        ))
    }

    /// Takes a place for what somebody else started and cannot be stopped: it counts, whether or not there is room.
    pub async fn occupy(
        &self,
        pool: &Name,
        run: Uuid,
        lease: Duration,
    ) -> Result<Permit, PermitError> {
        let turn = self.turn(pool).lock_owned().await;
        let place = self.place(pool, run, lease).await?;
        let sent = Instant::now();
        let claim = Claim {
            pool: pool.clone(),
            run,
            priority: 0,
            limit: u32::MAX,
            lease: millis(lease),
            occupied: true,
        };
        let fence = place
            .bucket
            .put(&place.key(Sign::Claim), json(&claim))
            .await
            .map_err(store(pool))?;
        Ok(Permit::held(place, fence, sent, turn, self.note(pool, run)))
    }

    /// Who holds the pool and who waits for it, at this moment.
    pub async fn look(&self, pool: &Name) -> Result<(Millis, Vec<Party>, Vec<Party>), PermitError> {
        let bucket = self.bucket().await?;
        let entries = async {
            // What was written last tells the broker's time.
            if !self.holds_any(pool)
                && let Ok(place) = self.place(pool, Uuid::nil(), LEASE).await
            {
                place.beat().await;
                bucket.delete(&place.key(Sign::Beat)).await?;
            }
            let mut watch = bucket.watch(">").await?;
            let mut state = State::new(pool.clone());
            while !watch.is_current() && state.take(&mut watch).await? {}
            Ok(state)
        };
        let state = entries.await.map_err(store(pool))?;
        let at = state.now();
        Ok((at, state.pool.claims(at), state.pool.waiting(at)))
    }

    /// The pools of which the store knows anything.
    pub async fn pools(&self) -> Result<Vec<Name>, PermitError> {
        let bucket = self.bucket().await?;
        let entries = bucket
            .list(">")
            .await
            .map_err(|source| PermitError::Open { source })?;
        let values = entries.iter().filter_map(|entry| entry.value.as_deref());
        let names: BTreeSet<Name> = values.filter_map(pool_of).collect();
        Ok(names.into_iter().collect())
    }

    /// Ends this node's permits of a pool, or the one of this run: what runs under them is stopped. Tells how many there were.
    pub fn revoke(&self, pool: &Name, run: Option<Uuid>) -> usize {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let meant = held.iter().filter(|((of, by), lost)| {
            of == pool && run.is_none_or(|run| run == *by) && !lost.is_cancelled()
        });
        meant.map(|(_, lost)| lost.cancel()).count()
    }

    fn holds_any(&self, pool: &Name) -> bool {
        let turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.get(pool).is_some_and(|turn| turn.try_lock().is_err())
    }

    /// Remembers a permit as long as somebody holds its token.
    fn note(&self, pool: &Name, run: Uuid) -> CancellationToken {
        let lost = CancellationToken::new();
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|(of, _), _| of != pool);
        held.insert((pool.clone(), run), lost.clone());
        lost
    }

    fn turn(&self, pool: &Name) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(turns.entry(pool.clone()).or_default())
    }

    async fn bucket(&self) -> Result<Bucket, PermitError> {
        let opened = self.bucket.get_or_try_init(|| self.open()).await;
        opened.cloned()
    }

    /// Opens the store, and removes what an earlier life of this node left there.
    async fn open(&self) -> Result<Bucket, PermitError> {
        let mut known = self.bus.subscribe();
        let known = tokio::time::timeout(LOOK, known.wait_for(Option::is_some)).await;
        let bus = known.ok().and_then(Result::ok).and_then(|bus| bus.clone());
        let bus = bus.ok_or(PermitError::NotConnected)?;
        let swept = async {
            let bucket = bus.bucket(PERMITS.name);
            for entry in bucket.list(&format!("*.*.{}", self.node)).await? {
                bucket.delete(&entry.key).await?;
            }
            Ok(bucket)
        };
        swept.await.map_err(|source| PermitError::Open { source })
    }

    async fn place(&self, pool: &Name, run: Uuid, lease: Duration) -> Result<Place, PermitError> {
        let bucket = self.bucket().await?;
        let too_many = || PermitError::TooManyPools { pool: pool.clone() };
        Ok(Place {
            bucket,
            pool: pool.clone(),
            slot: self.slots.take().ok_or_else(too_many)?,
            node: self.node.clone(),
            run,
            lease,
        })
    }
}

/// A pool and the broker's time, as far as a watch has told them.
struct State {
    pool: Pool,
    reckoning: Reckoning,
}

impl State {
    fn new(pool: Name) -> Self {
        Self {
            pool: Pool::new(pool),
            reckoning: Reckoning::default(),
        }
    }

    fn now(&self) -> Millis {
        self.reckoning
            .at(std::time::Instant::now())
            .unwrap_or_default()
    }

    /// Takes one entry from the watch; false when there will be no more.
    async fn take(&mut self, watch: &mut Watch) -> Result<bool, StoreError> {
        let Some(entry) = watch.next().await? else {
            return Ok(false);
        };
        self.reckoning
            .learn(entry.created, std::time::Instant::now());
        self.pool.apply(&entry);
        Ok(true)
    }

    /// How long nothing changes if nobody writes.
    fn pause(&self) -> Duration {
        let now = self.now();
        let end = self.pool.next_end(now).unwrap_or(u64::MAX);
        Duration::from_millis(end.saturating_sub(now).saturating_add(1)).min(LOOK)
    }
}

/// What was written and must be removed, should the waiting be given up in any way.
struct Written(Option<Place>);

impl Drop for Written {
    fn drop(&mut self) {
        if let Some(place) = self.0.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move { place.give_back().await });
        }
    }
}

/// One attempt to get a place.
struct Entry {
    limit: u32,
    priority: i8,
}

impl Entry {
    /// Waits for a place; gives the claim's revision, and when the last sign of life was sent.
    async fn wait(
        &self,
        place: &Place,
        last: &mut Vec<Party>,
    ) -> Result<(u64, Instant), StoreError> {
        let mut watch = place.bucket.watch(">").await?;
        let mut state = State::new(place.pool.clone());
        let mut proven = Instant::now();
        let own = place
            .bucket
            .put(&place.key(Sign::Wait), self.waits(place))
            .await?;
        loop {
            // Nothing is decided before our own word has come back: then everything before it is known.
            while state.pool.revision() < own || !watch.is_current() {
                self.next(&mut state, &mut watch).await?;
            }
            *last = state.pool.claims(state.now());
            if state.pool.is_turn_of(&place.node, state.now()) {
                proven = Instant::now();
                if let Some(fence) = self.claim(place, &mut state, &mut watch).await? {
                    return Ok((fence, proven));
                }
            }
            if proven.elapsed() >= place.lease / 3 {
                let sent = Instant::now();
                if place.beat().await {
                    proven = sent;
                }
            }
            let pause = state.pause().min(place.lease / 3);
            if let Ok(taken) = tokio::time::timeout(pause, self.next(&mut state, &mut watch)).await
            {
                taken?;
            }
        }
    }

    /// Claims a place, and finds out by the order of claims whether it is ours; a claim that came too late is taken back.
    async fn claim(
        &self,
        place: &Place,
        state: &mut State,
        watch: &mut Watch,
    ) -> Result<Option<u64>, StoreError> {
        let claim = Claim {
            pool: place.pool.clone(),
            run: place.run,
            priority: self.priority,
            limit: self.limit,
            lease: millis(place.lease),
            occupied: false,
        };
        let own = place
            .bucket
            .put(&place.key(Sign::Claim), json(&claim))
            .await?;
        while state.pool.revision() < own {
            self.next(state, watch).await?;
        }
        if let Some(fence) = state.pool.holds(&place.node, state.now()) {
            place.bucket.delete(&place.key(Sign::Wait)).await?;
            return Ok(Some(fence));
        }
        place.bucket.delete(&place.key(Sign::Claim)).await?;
        Ok(None)
    }

    async fn next(&self, state: &mut State, watch: &mut Watch) -> Result<(), StoreError> {
        if state.take(watch).await? {
            return Ok(());
        }
        Err(StoreError::Failed {
            what: "watch",
            bucket: PERMITS.name.to_owned(),
            problem: "the connection is closed".to_owned(),
        })
    }

    fn waits(&self, place: &Place) -> Bytes {
        json(&Wait {
            pool: place.pool.clone(),
            run: place.run,
            priority: self.priority,
            limit: self.limit,
            lease: millis(place.lease),
        })
    }
}

fn full(ask: &Ask, claims: &[Party]) -> PermitError {
    let names: Vec<&str> = claims.iter().map(|claim| claim.node.as_str()).collect();
    PermitError::Full {
        pool: ask.pool.clone(),
        patience: ask.patience,
        holders: if names.is_empty() {
            "nobody, but others came first".to_owned()
        } else {
            names.join(", ")
        },
    }
}

fn store(pool: &Name) -> impl FnOnce(StoreError) -> PermitError {
    let pool = pool.clone();
    move |source| PermitError::Store { pool, source }
}

fn millis(duration: Duration) -> Millis {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn json<T: Serialize>(value: &T) -> Bytes {
    Bytes::from(serde_json::to_vec(value).unwrap_or_default())
}
