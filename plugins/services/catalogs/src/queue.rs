//! Nodes that wait for a compile: the bucket `COMPILES`, with at most one entry per node under `want.NODE`.
//!
//! A worker claims an entry by writing its name into it, and writes it again while it compiles. An entry whose revision stays the same for a whole lease
//! belongs to a worker that ended, and another one claims it. No clocks are compared: each worker measures the lease by its own.
//!
//! An entry says only "look at this node". A change while the node waits or is compiled adds nothing: the worker removes the entry first, and then
//! compares the inputs of the compile with the present ones.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use muster_bus::{Bucket, BucketEntry, BucketError, json_bytes};
use muster_wire::Millis;
use muster_wire::identity::Identity;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::time::Instant;
use uuid::Uuid;

const KEY_PREFIX: &str = "want.";
/// The broker removes the note of a removed entry after this time; until then, others may still learn of the removal from it.
const NOTE_AGE: Duration = Duration::from_hours(24);
/// Tries of a change that conflicts with others.
const MAX_TRIES: usize = 20;

/// Why and since when a node waits, and which worker compiles it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WantedCompile {
    /// Workers are of one environment each, so that one whose compiles take long delays no other.
    pub environment: String,
    pub reason: String,
    /// A person asked for it: it comes before others.
    pub urgent: bool,
    pub since: Millis,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<CompileClaim>,
}

/// The worker that compiles a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompileClaim {
    pub worker: Uuid,
    /// 1 for the first worker; more after workers that ended meanwhile.
    pub attempt: u32,
}

/// A node whose compile this worker has claimed.
#[derive(Debug)]
pub struct ClaimedNode {
    pub node: Identity,
    pub want: WantedCompile,
    revision: u64,
}

impl ClaimedNode {
    /// 1 unless workers ended while they compiled the node.
    pub fn attempt(&self) -> u32 {
        self.want.claim.as_ref().map_or(1, |claim| claim.attempt)
    }
}

#[derive(Debug, Clone, Copy)]
enum ClaimChange {
    Renew,
    Remove,
}

#[derive(Debug, Clone)]
struct WaitingNode {
    want: WantedCompile,
    revision: u64,
    /// When this worker saw the revision.
    seen: Instant,
}

/// The queue, as one worker sees it.
#[derive(Debug)]
pub struct CompileQueue {
    bucket: Bucket,
    worker: Uuid,
    lease: Duration,
    state: Mutex<QueueState>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct QueueState {
    waiting: BTreeMap<Identity, WaitingNode>,
    /// The last known revision of each removed entry. Earlier changes of it may still arrive, and must not bring it back.
    removed: BTreeMap<Identity, u64>,
}

impl QueueState {
    /// Takes an entry, unless a later state of it is known.
    fn note(&mut self, node: &Identity, want: WantedCompile, revision: u64) {
        let is_later = |known: Option<u64>| known.is_none_or(|known| known < revision);
        let known = self.waiting.get(node).map(|known| known.revision);
        if is_later(known) && is_later(self.removed.get(node).copied()) {
            let waiting = WaitingNode { want, revision, seen: Instant::now() };
            self.waiting.insert(node.clone(), waiting);
        }
    }

    /// Takes the removal of an entry whose last revision was this one, or which has this one as its own.
    fn remove(&mut self, node: &Identity, revision: u64) {
        if self.waiting.get(node).is_some_and(|known| known.revision > revision) {
            return;
        }
        self.waiting.remove(node);
        let removed = self.removed.entry(node.clone()).or_insert(revision);
        *removed = revision.max(*removed);
    }
}

impl CompileQueue {
    /// `lease`: how long a worker may be silent before another one compiles its node.
    pub fn new(bucket: Bucket, lease: Duration) -> Self {
        let (state, changed) = (Mutex::default(), Notify::new());
        Self { bucket, worker: Uuid::now_v7(), lease, state, changed }
    }

    pub fn bucket(&self) -> &Bucket {
        &self.bucket
    }

    pub fn lease(&self) -> Duration {
        self.lease
    }

    /// Adds a node unless it waits already. Returns whether it was added, or became urgent.
    pub async fn want(&self, node: &Identity, want: WantedCompile) -> Result<bool, BucketError> {
        let urgent = want.urgent;
        let is_known = |known: &WaitingNode| !urgent || known.want.urgent;
        if self.lock().waiting.get(node).is_some_and(is_known) {
            return Ok(false);
        }
        match self.bucket.create(&key_of(node), json_bytes(&want)).await {
            Ok(revision) => {
                self.note(node, want, revision);
                Ok(true)
            }
            Err(BucketError::Conflict { .. }) if urgent => self.raise(node).await,
            Err(BucketError::Conflict { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Makes an entry urgent, if it is still there and is not.
    async fn raise(&self, node: &Identity) -> Result<bool, BucketError> {
        for _ in 0..MAX_TRIES {
            let Some((mut want, revision)) = self.read(node).await? else { return Ok(false) };
            if want.urgent {
                return Ok(false);
            }
            want.urgent = true;
            match self.bucket.update(&key_of(node), json_bytes(&want), revision).await {
                Ok(revision) => {
                    self.note(node, want, revision);
                    return Ok(true);
                }
                Err(BucketError::Conflict { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Claims the next node of an environment: urgent ones first, then those that wait longest. `None` if there is none now.
    pub async fn claim(&self, environment: &str) -> Result<Option<ClaimedNode>, BucketError> {
        while let Some((node, mut waiting)) = self.next(environment, Instant::now()) {
            let attempt = waiting.want.claim.as_ref().map_or(0, |claim| claim.attempt) + 1;
            waiting.want.claim = Some(CompileClaim { worker: self.worker, attempt });
            let want = waiting.want;
            match self.bucket.update(&key_of(&node), json_bytes(&want), waiting.revision).await {
                Ok(revision) => {
                    self.note(&node, want.clone(), revision);
                    return Ok(Some(ClaimedNode { node, want, revision }));
                }
                Err(BucketError::Conflict { .. }) => self.refresh(&node).await?,
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Shows other workers that the compile goes on. `false` if another one has claimed the node.
    pub async fn renew(&self, claimed: &mut ClaimedNode) -> Result<bool, BucketError> {
        self.write_claim(claimed, ClaimChange::Renew).await
    }

    /// Removes the entry. `false` if another worker has claimed the node meanwhile, whose entry stays.
    pub async fn finish(&self, mut claimed: ClaimedNode) -> Result<bool, BucketError> {
        self.write_claim(&mut claimed, ClaimChange::Remove).await
    }

    async fn write_claim(
        &self,
        claimed: &mut ClaimedNode,
        change: ClaimChange,
    ) -> Result<bool, BucketError> {
        for _ in 0..MAX_TRIES {
            match self.try_write_claim(claimed, change).await {
                Err(BucketError::Conflict { .. }) => {}
                written => return written.map(|()| true),
            }
            // The entry became urgent, or another worker took it.
            match self.read(&claimed.node).await? {
                Some((want, revision)) if want.claim == claimed.want.claim => {
                    (claimed.want, claimed.revision) = (want, revision);
                }
                _ => return Ok(false),
            }
        }
        Ok(false)
    }

    async fn try_write_claim(
        &self,
        claimed: &mut ClaimedNode,
        change: ClaimChange,
    ) -> Result<(), BucketError> {
        let (key, revision) = (key_of(&claimed.node), claimed.revision);
        match change {
            ClaimChange::Renew => {
                claimed.revision =
                    self.bucket.update(&key, json_bytes(&claimed.want), revision).await?;
                self.note(&claimed.node, claimed.want.clone(), claimed.revision);
            }
            ClaimChange::Remove => {
                self.bucket.delete_revision(&key, revision, NOTE_AGE).await?;
                self.lock().remove(&claimed.node, revision);
            }
        }
        Ok(())
    }

    /// Waits until a node of an environment can be claimed. May return early.
    pub async fn wait_for_work(&self, environment: &str) {
        loop {
            let changed = self.changed.notified();
            if self.next(environment, Instant::now()).is_some() {
                return;
            }
            let next_end = {
                let state = self.lock();
                let own = state.waiting.values().filter(|one| one.want.environment == environment);
                own.map(|one| one.seen + self.lease).min()
            };
            match next_end {
                Some(end) => {
                    let _ = tokio::time::timeout_at(end, changed).await;
                }
                None => changed.await,
            }
        }
    }

    /// Forgets everything, before the bucket is read again: it may have been created again, with revisions from 1.
    pub fn forget(&self) {
        *self.lock() = QueueState::default();
    }

    /// Takes a change of the bucket.
    pub fn apply(&self, entry: &BucketEntry) {
        let Some(node) = entry.key.strip_prefix(KEY_PREFIX) else { return };
        let Ok(node) = Identity::parse(node) else { return };
        match entry.value.as_ref().map(|value| serde_json::from_slice(value)) {
            None => self.lock().remove(&node, entry.revision),
            Some(Ok(want)) => self.note(&node, want, entry.revision),
            Some(Err(error)) => {
                tracing::warn!(%node, %error, "cannot read an entry of the queue of compiles");
            }
        }
        self.changed.notify_waiters();
    }

    /// The nodes that wait, and those that are compiled now.
    pub fn list(&self) -> Vec<(Identity, WantedCompile)> {
        let state = self.lock();
        state.waiting.iter().map(|(node, one)| (node.clone(), one.want.clone())).collect()
    }

    pub fn get(&self, node: &Identity) -> Option<WantedCompile> {
        self.lock().waiting.get(node).map(|waiting| waiting.want.clone())
    }

    /// The next node of an environment without a valid claim.
    fn next(&self, environment: &str, now: Instant) -> Option<(Identity, WaitingNode)> {
        let state = self.lock();
        let own = state.waiting.iter().filter(|(_, one)| one.want.environment == environment);
        let free = own.filter(|(_, one)| {
            one.want.claim.is_none() || now.duration_since(one.seen) >= self.lease
        });
        let order = |(_, waiting): &(&Identity, &WaitingNode)| {
            (!waiting.want.urgent, waiting.want.since, waiting.revision)
        };
        free.min_by_key(order).map(|(node, waiting)| (node.clone(), waiting.clone()))
    }

    fn note(&self, node: &Identity, want: WantedCompile, revision: u64) {
        self.lock().note(node, want, revision);
        self.changed.notify_waiters();
    }

    /// Reads an entry that another worker has changed.
    async fn refresh(&self, node: &Identity) -> Result<(), BucketError> {
        match self.read(node).await? {
            Some((want, revision)) => self.note(node, want, revision),
            // Its removal arrives with its revision.
            None => {
                self.lock().waiting.remove(node);
            }
        }
        Ok(())
    }

    async fn read(&self, node: &Identity) -> Result<Option<(WantedCompile, u64)>, BucketError> {
        let Some(entry) = self.bucket.get(&key_of(node)).await? else { return Ok(None) };
        let want = entry.value.and_then(|value| serde_json::from_slice(&value).ok());
        Ok(want.map(|want| (want, entry.revision)))
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key_of(node: &Identity) -> String {
    format!("{KEY_PREFIX}{node}")
}
