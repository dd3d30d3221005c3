//! One pool as the bucket's entries tell it: who holds it, whose turn is next. A pure fold; it reads no clock.
//!
//! Instants are the broker's. A reader knows only a lower bound of them ([`BrokerClock`]), so that it takes the dead for living rather
//! than the other way round.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use muster_api::wire::Millis;
use muster_api::wire::identity::{Identity, SubjectName};
use muster_bus::BucketEntry;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::record::{ClaimRecord, PermitKeyKind, WaitRecord, clamp_lease};

/// What the others know of the broker's time: at least this much.
#[derive(Debug, Clone, Copy, Default)]
pub struct BrokerClock(Option<(Millis, Instant)>);

impl BrokerClock {
    /// An entry that was written at `created` was here at `now`.
    pub fn observe_entry(&mut self, created: Millis, now: Instant) {
        if self.time_at(now).is_none_or(|known| created > known) {
            self.0 = Some((created, now));
        }
    }

    /// The broker's time at `now`, or earlier than that.
    pub fn time_at(&self, now: Instant) -> Option<Millis> {
        let (created, then) = self.0?;
        let passed = now.saturating_duration_since(then).as_millis();
        Some(created.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX)))
    }
}

/// Somebody who waits, or holds a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolMember {
    /// The node.
    pub node: Identity,
    /// The run that it is for.
    pub run: Uuid,
    /// Its place in the order; of a claim, the fence.
    pub revision: u64,
    /// When it was written.
    pub since: Millis,
    /// Higher goes first.
    pub priority: i8,
    /// How many it accepts beside itself, itself included.
    pub limit: u32,
    /// When it is taken for dead, if nothing is heard until then.
    pub expires: Millis,
    /// Somebody else started what runs.
    pub occupied: bool,
}

#[derive(Debug, Clone, Default)]
struct MemberState {
    wait: Option<RevisionedRecord<WaitRecord>>,
    claim: Option<RevisionedRecord<ClaimRecord>>,
    /// The last sign of life.
    seen: Millis,
}

#[derive(Debug, Clone)]
struct RevisionedRecord<T> {
    value: T,
    revision: u64,
    created: Millis,
}

/// The state of one pool.
#[derive(Debug, Clone)]
pub struct PermitPool {
    name: SubjectName,
    /// By node and slot.
    members: BTreeMap<(Identity, u8), MemberState>,
    revision: u64,
}

impl PermitPool {
    /// A pool that nothing is known of.
    pub fn new(name: SubjectName) -> Self {
        Self {
            name,
            members: BTreeMap::new(),
            revision: 0,
        }
    }

    /// The last revision that was applied.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Takes over one entry. What is not ours, or not readable, says nothing.
    pub fn apply_entry(&mut self, entry: &BucketEntry) {
        self.revision = self.revision.max(entry.revision);
        let Some((sign, slot, node)) = PermitKeyKind::parse_key(&entry.key) else {
            return;
        };
        let member = self.members.entry((node, slot)).or_default();
        if entry.value.is_some() {
            member.seen = member.seen.max(entry.created);
        }
        match sign {
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
        self.members
            .retain(|_, member| member.wait.is_some() || member.claim.is_some());
    }

    /// The claims that live at this instant, the oldest first: those who hold the pool, and those who came too late.
    pub fn live_claims(&self, at: Millis) -> Vec<PoolMember> {
        let claim = |((node, _), member): (&(Identity, u8), &MemberState)| {
            let written = member.claim.as_ref()?;
            let ClaimRecord {
                run,
                priority,
                limit,
                lease,
                occupied,
                ..
            } = written.value;
            let expires = member.seen.saturating_add(lease_with_grace(lease));
            (expires >= at).then(|| PoolMember {
                node: node.clone(),
                run,
                revision: written.revision,
                since: written.created,
                priority,
                limit,
                expires,
                occupied,
            })
        };
        let mut claims: Vec<PoolMember> = self.members.iter().filter_map(claim).collect();
        claims.sort_by_key(|claim| claim.revision);
        first_per_node(claims)
    }

    /// Those who wait and live at this instant, in the order of their turns.
    pub fn waiting_members(&self, at: Millis) -> Vec<PoolMember> {
        let wait = |((node, _), member): (&(Identity, u8), &MemberState)| {
            let written = member.wait.as_ref()?;
            let WaitRecord {
                run,
                priority,
                limit,
                lease,
                ..
            } = written.value;
            let expires = member.seen.saturating_add(lease_with_grace(lease));
            let waits = member.claim.is_none() && expires >= at;
            waits.then(|| PoolMember {
                node: node.clone(),
                run,
                revision: written.revision,
                since: written.created,
                priority,
                limit,
                expires,
                occupied: false,
            })
        };
        let mut waiting: Vec<PoolMember> = self.members.iter().filter_map(wait).collect();
        waiting.sort_by_key(|wait| (Reverse(wait.priority), wait.revision));
        first_per_node(waiting)
    }

    /// The fence of this node's claim, if it is among those that hold the pool.
    pub fn held_fence(&self, node: &Identity, at: Millis) -> Option<u64> {
        let claims = self.live_claims(at);
        let place = claims.iter().position(|claim| claim.node == *node)?;
        let claim = claims.get(place)?;
        (claim.occupied || place < limit_as_usize(claim.limit)).then_some(claim.revision)
    }

    /// Whether it is this node's turn to claim a place: there is one, and nobody who waits comes before it.
    pub fn is_turn_of(&self, node: &Identity, at: Millis) -> bool {
        let waiting = self.waiting_members(at);
        let taken = self.live_claims(at).len();
        let Some(place) = waiting.iter().position(|wait| wait.node == *node) else {
            return false;
        };
        waiting
            .get(place)
            .is_some_and(|wait| taken + place < limit_as_usize(wait.limit))
    }

    /// When the next of those who live will be taken for dead.
    pub fn next_expiry(&self, at: Millis) -> Option<Millis> {
        let claims = self.live_claims(at).into_iter();
        let parties = claims.chain(self.waiting_members(at));
        parties.map(|party| party.expires).min()
    }
}

/// The first entry of each node: one that writes the same pool into several slots holds one place.
fn first_per_node(parties: Vec<PoolMember>) -> Vec<PoolMember> {
    let mut seen = BTreeSet::new();
    let mut parties = parties;
    parties.retain(|party| seen.insert(party.node.clone()));
    parties
}

fn limit_as_usize(limit: u32) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}

/// The others wait a quarter longer than the holder: a message on its way is not a death.
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
