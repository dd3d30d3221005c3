//! State of one pool: holders and turn order, as a pure fold of the bucket's entries. Reads no clock.
//!
//! Instants are those of the reader: the broker's time when it began to read, and from then on the time of its monotonic clock
//! ([`BrokerClock`]). The broker's clock is that of the stream's leader, and another leader has another clock. So the age of an entry
//! that arrives while a node reads counts from its arrival, and only entries from before are judged by the times that the broker
//! stored, with an allowance ([`MAX_SERVER_SKEW`]). A reader may treat an expired entry as live, but never a live entry as expired.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use muster_api::base::duration_millis;
use muster_api::wire::Millis;
use muster_api::wire::identity::{Identity, SubjectName};
use muster_bus::BucketEntry;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::permits::record::{ClaimRecord, PermitKeyKind, WaitRecord, clamp_lease};

/// Largest difference between the clocks of two servers of the broker with which permits are safe.
pub const MAX_SERVER_SKEW: Duration = Duration::from_mins(1);

/// Waiting runs at the head of the order. They send heartbeats as holders do, so that a dead one does not block those behind it.
const HEAD_PLACES: usize = 64;
/// Behind the head, a waiting run sends a heartbeat after this time for each waiting run: each of them receives those of all others, so their number per second
/// must not grow with that of the runs.
const HEARTBEAT_SHARE: Duration = Duration::from_millis(200);
/// Longest time between two heartbeats behind the head.
const MAX_WAIT_INTERVAL: Duration = Duration::from_mins(10);

/// Lower bound of the broker's time, derived from received entries until it is fixed.
#[derive(Debug, Clone, Copy, Default)]
pub struct BrokerClock {
    known: Option<(Millis, Instant)>,
    is_fixed: bool,
}

impl BrokerClock {
    /// Records that an entry written at `created` was received at `now`. Returns when the entry counts as written: once the clock is
    /// fixed, when it was received.
    pub fn observe_entry(&mut self, created: Millis, now: Instant) -> Millis {
        let known = self.time_at(now);
        if self.is_fixed {
            return known.unwrap_or(created);
        }
        if known.is_none_or(|known| created > known) {
            self.known = Some((created, now));
        }
        created
    }

    /// From now on the time passes as the monotonic clock, whatever entries say.
    pub fn fix(&mut self) {
        self.is_fixed = true;
    }

    /// Lower bound of the broker's time at `now`.
    pub fn time_at(&self, now: Instant) -> Option<Millis> {
        let (created, received_at) = self.known?;
        let elapsed = now.saturating_duration_since(received_at).as_millis();
        Some(created.saturating_add(u64::try_from(elapsed).unwrap_or(u64::MAX)))
    }
}

/// A node that waits for a place or claims one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolMember {
    pub node: Identity,
    pub run: Uuid,
    /// Revision of the entry, which gives the order; of a claim, the fence.
    pub revision: u64,
    /// When the entry was written.
    pub since: Millis,
    /// Higher goes first.
    pub priority: i8,
    /// The rollout that a waiting run belongs to.
    pub rollout: Option<Uuid>,
    /// The limit of the run: how many may hold the pool at once, itself included. `u32::MAX`: the run imposes no limit.
    pub limit: u32,
    /// When the entry expires without another heartbeat.
    pub expires: Millis,
    /// The run was in progress before the claim was written; the claim counts beyond the limit.
    pub occupied: bool,
}

#[derive(Debug, Clone, Default)]
struct MemberState {
    wait: Option<RevisionedRecord<WaitRecord>>,
    claim: Option<RevisionedRecord<ClaimRecord>>,
    /// When the node last wrote an entry, in the reader's time.
    last_heartbeat: Millis,
}

impl MemberState {
    fn is_member(&self) -> bool {
        self.wait.is_some() || self.claim.is_some()
    }

    /// When the first of its entries expires, at the head.
    fn expires(&self) -> Millis {
        let wait = self.wait.as_ref().map(|wait| wait.value.lease);
        let claim = self.claim.as_ref().map(|claim| claim.value.lease);
        let lease = wait.into_iter().chain(claim).min().unwrap_or(0);
        self.last_heartbeat.saturating_add(lease_with_grace(lease))
    }
}

#[derive(Debug, Clone)]
struct RevisionedRecord<T> {
    value: T,
    revision: u64,
    created: Millis,
}

#[derive(Debug, Clone)]
pub struct PermitPool {
    name: SubjectName,
    /// Keyed by node and slot.
    members: HashMap<(Identity, u8), MemberState>,
    revision: u64,
}

impl PermitPool {
    pub fn new(name: SubjectName) -> Self {
        Self { name, members: HashMap::new(), revision: 0 }
    }

    /// Highest revision applied.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Applies one entry that was written when the broker says. Ignores unknown keys, unreadable values and entries of other pools.
    pub fn apply_entry(&mut self, entry: &BucketEntry) {
        self.apply_entry_at(entry, entry.created);
    }

    pub fn claim_revision(&self, node: &Identity, slot: u8) -> Option<u64> {
        let member = self.members.get(&(node.clone(), slot))?;
        member.claim.as_ref().map(|claim| claim.revision)
    }

    /// When the broker stored the wait entry of a node in this slot.
    pub fn wait_time(&self, node: &Identity, slot: u8) -> Option<Millis> {
        let member = self.members.get(&(node.clone(), slot))?;
        member.wait.as_ref().map(|wait| wait.created)
    }

    /// Makes each entry younger by the allowance for different clocks, at most as young as this instant.
    pub fn limit_ages(&mut self, at: Millis) {
        let allowance = duration_millis(MAX_SERVER_SKEW);
        for member in self.members.values_mut() {
            member.last_heartbeat = member.last_heartbeat.saturating_add(allowance).min(at);
        }
    }

    /// Applies one entry as if it was written at this instant. Returns whether the order of turns may have changed.
    pub fn apply_entry_at(&mut self, entry: &BucketEntry, written: Millis) -> bool {
        self.revision = self.revision.max(entry.revision);
        let Some((kind, slot, node)) = PermitKeyKind::parse_key(&entry.key) else { return false };
        let key = (node, slot);
        let mut member = self.members.remove(&key).unwrap_or_default();
        let (was_member, was_silent) = (member.is_member(), member.expires() < written);
        if entry.value.is_some() {
            member.last_heartbeat = member.last_heartbeat.max(written);
        }
        match kind {
            PermitKeyKind::Wait => {
                member.wait = parse_record(entry)
                    .filter(|wait: &RevisionedRecord<WaitRecord>| wait.value.pool == self.name);
            }
            PermitKeyKind::Claim => {
                member.claim = parse_record(entry)
                    .filter(|claim: &RevisionedRecord<ClaimRecord>| claim.value.pool == self.name);
            }
            PermitKeyKind::Beat => {}
        }
        let is_member = member.is_member();
        if is_member {
            self.members.insert(key, member);
        }
        (was_member || is_member) && (kind != PermitKeyKind::Beat || was_silent)
    }

    /// Claims that are not expired at this instant, oldest first. Includes claims beyond the limit.
    pub fn live_claims(&self, at: Millis) -> Vec<PoolMember> {
        let claim = |((node, _), member): (&(Identity, u8), &MemberState)| {
            let record = member.claim.as_ref()?;
            let ClaimRecord { run, priority, limit, lease, occupied, .. } = record.value;
            let expires = member.last_heartbeat.saturating_add(lease_with_grace(lease));
            (expires >= at).then(|| PoolMember {
                node: node.clone(),
                run,
                revision: record.revision,
                since: record.created,
                priority,
                rollout: None,
                limit,
                expires,
                occupied,
            })
        };
        let mut claims: Vec<PoolMember> = self.members.iter().filter_map(claim).collect();
        claims.sort_by_key(|claim| claim.revision);
        first_per_node(claims)
    }

    /// Waiting nodes that are not expired at this instant, in the order of their turns: priority, then revision. The runs of a rollout exchange their
    /// places, so that they are in the order of their ids. Runs behind the head expire later, because they send fewer heartbeats.
    pub fn waiting_members(&self, at: Millis) -> Vec<PoolMember> {
        let wait = |((node, _), member): (&(Identity, u8), &MemberState)| {
            let record = member.wait.as_ref()?;
            let WaitRecord { run, priority, limit, lease, rollout, .. } = record.value;
            let expires = member.last_heartbeat.saturating_add(lease_with_grace(lease));
            let is_waiting = member.claim.is_none() && expires_behind_head(expires) >= at;
            is_waiting.then(|| PoolMember {
                node: node.clone(),
                run,
                revision: record.revision,
                since: record.created,
                priority,
                rollout,
                limit,
                expires,
                occupied: false,
            })
        };
        let mut waiting: Vec<PoolMember> = self.members.iter().filter_map(wait).collect();
        waiting.sort_by_key(|wait| (Reverse(wait.priority), wait.revision));
        arrange_rollouts(&mut waiting);
        leave_out_silent(&mut waiting, at);
        first_per_node(waiting)
    }

    /// Time between two heartbeats of a waiting node, which is `usual` at the head. A node that comes to the head sends one at once.
    pub fn heartbeat_interval(&self, node: &Identity, usual: Duration, at: Millis) -> Duration {
        let waiting = self.waiting_members(at);
        let place = waiting.iter().position(|wait| wait.node == *node);
        if place.is_none_or(|place| place < HEAD_PLACES) {
            return usual;
        }
        let count = u32::try_from(waiting.len()).unwrap_or(u32::MAX);
        HEARTBEAT_SHARE.saturating_mul(count).min(MAX_WAIT_INTERVAL).max(usual)
    }

    /// Claims that hold a place at this instant, oldest first: they are within their own limit and the limits of all older claims, or occupied. A
    /// claim that holds a place keeps it, because only older claims count, and they only become fewer.
    pub fn held_claims(&self, at: Millis) -> Vec<PoolMember> {
        let mut limit = u32::MAX;
        let mut claims = self.live_claims(at);
        let mut position = 0;
        claims.retain(|claim| {
            limit = limit.min(claim.limit);
            let is_held = claim.occupied || position < limit_as_usize(limit);
            position += 1;
            is_held
        });
        claims
    }

    /// The fence of this node's claim if it holds a place; `None` if there is no claim or it is beyond a limit.
    pub fn held_fence(&self, node: &Identity, at: Millis) -> Option<u64> {
        let claims = self.held_claims(at);
        claims.iter().find(|claim| claim.node == *node).map(|claim| claim.revision)
    }

    /// Whether this node may claim: by its own limit, those of all claims and those of all waiters before it, enough places are free for it and
    /// for these waiters.
    pub fn is_turn_of(&self, node: &Identity, at: Millis) -> bool {
        let claims = self.live_claims(at);
        let waiting = self.waiting_members(at);
        let Some(position) = waiting.iter().position(|wait| wait.node == *node) else {
            return false;
        };
        let limits = claims.iter().chain(waiting.iter().take(position + 1));
        let limit = limits.map(|member| member.limit).min().unwrap_or(u32::MAX);
        claims.len() + position < limit_as_usize(limit)
    }

    /// When the next live entry expires.
    pub fn next_expiry(&self, at: Millis) -> Option<Millis> {
        let claims = self.live_claims(at).into_iter();
        let members = claims.chain(self.waiting_members(at));
        members.map(|member| member.expires).min()
    }
}

/// Leaves out runs at the head that are silent. Of those behind it, it is not known whether they are.
fn leave_out_silent(waiting: &mut Vec<PoolMember>, at: Millis) {
    let mut place = 0;
    waiting.retain_mut(|wait| {
        let is_behind = place >= HEAD_PLACES;
        if is_behind {
            wait.expires = expires_behind_head(wait.expires);
        }
        let is_kept = wait.expires >= at;
        place += usize::from(is_kept);
        is_kept
    });
}

/// When an entry behind the head expires that would expire then at the head.
fn expires_behind_head(expires: Millis) -> Millis {
    expires.saturating_add(duration_millis(MAX_WAIT_INTERVAL))
}

/// Sorts the members of each rollout and priority by run id, within the places that they have.
fn arrange_rollouts(members: &mut [PoolMember]) {
    let mut places: BTreeMap<(Uuid, i8), Vec<usize>> = BTreeMap::new();
    for (place, member) in members.iter().enumerate() {
        if let Some(rollout) = member.rollout {
            places.entry((rollout, member.priority)).or_default().push(place);
        }
    }
    for places in places.values() {
        let runs = places.iter().filter_map(|place| members.get(*place).cloned());
        let mut runs: Vec<PoolMember> = runs.collect();
        runs.sort_by_key(|member| member.run);
        for (place, run) in places.iter().zip(runs) {
            if let Some(member) = members.get_mut(*place) {
                *member = run;
            }
        }
    }
}

/// Keeps the first entry of each node: several slots with the same pool count as one place.
fn first_per_node(members: Vec<PoolMember>) -> Vec<PoolMember> {
    let mut seen = HashSet::new();
    let mut members = members;
    members.retain(|member| seen.insert(member.node.clone()));
    members
}

fn limit_as_usize(limit: u32) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}

/// Other nodes wait a quarter of the lease longer than the holder, so that a delayed heartbeat does not end a permit.
fn lease_with_grace(written: Millis) -> Millis {
    let lease = clamp_lease(written);
    lease + lease / 4
}

fn parse_record<T: DeserializeOwned>(entry: &BucketEntry) -> Option<RevisionedRecord<T>> {
    Some(RevisionedRecord {
        value: serde_json::from_slice(entry.value.as_ref()?).ok()?,
        revision: entry.revision,
        created: entry.created,
    })
}
