//! Tests of the pool with a model, and of keys.
//! `tests/it/permits.rs` tests two nodes with a real broker.

use std::cmp::Reverse;
use std::time::Duration;

use muster_api::wire::identity::{Identity, SubjectName};
use muster_bus::{BucketEntry, Bytes};
use proptest::prelude::*;
use uuid::Uuid;

use crate::permits::pool::{BrokerClock, PermitPool};
use crate::permits::record::{ClaimRecord, PermitKeyKind, WaitRecord};

fn pool() -> SubjectName {
    SubjectName::parse("puppet").unwrap()
}

fn node(number: u8) -> Identity {
    Identity::parse(&format!("web{number}.example.net")).unwrap()
}

#[test]
fn keys_contain_kind_slot_and_node() {
    for sign in [PermitKeyKind::Wait, PermitKeyKind::Claim, PermitKeyKind::Beat] {
        let key = sign.entry_key(4, &node(1));
        assert_eq!(PermitKeyKind::parse_key(&key), Some((sign, 4, node(1))));
    }
    for strange in [
        "",
        "claim",
        "claim.1",
        "steal.1.web1",
        "claim.0.web1",
        "claim.5.web1",
        "claim.x.web1",
        "claim.1.",
        "claim.1.a b",
    ] {
        assert_eq!(PermitKeyKind::parse_key(strange), None, "{strange}");
    }
}

/// A claim by node `of` for pool `to` in this slot.
fn claim(slot: u8, of: u8, to: &str, revision: u64) -> BucketEntry {
    let claim = ClaimRecord {
        pool: SubjectName::parse(to).unwrap(),
        run: Uuid::nil(),
        priority: 0,
        limit: 9,
        lease: LEASE,
        occupied: false,
    };
    BucketEntry {
        key: PermitKeyKind::Claim.entry_key(slot, &node(of)),
        value: serde_json::to_vec(&claim).ok().map(Bytes::from),
        revision,
        created: 1,
    }
}

#[test]
fn claim_for_another_pool_ends_the_claim_in_the_first() {
    let mut state = PermitPool::new(pool());
    state.apply_entry(&claim(1, 1, "puppet", 1));
    state.apply_entry(&claim(2, 1, "restart", 2));
    assert_eq!(state.live_claims(1).len(), 1);
    state.apply_entry(&claim(1, 1, "restart", 3));
    assert!(state.live_claims(1).is_empty());
}

#[test]
fn node_that_claims_a_pool_in_every_slot_holds_one_place() {
    let mut state = PermitPool::new(pool());
    for slot in 1..=4 {
        state.apply_entry(&claim(slot, 1, "puppet", slot.into()));
    }
    state.apply_entry(&claim(1, 2, "puppet", 9));
    let held: Vec<u64> = state.live_claims(1).iter().map(|claim| claim.revision).collect();
    assert_eq!(held, [1, 9]);
}

#[test]
fn broker_time_is_never_overestimated() {
    let mut reckoning = BrokerClock::default();
    let start = std::time::Instant::now();
    let after = |millis| start + Duration::from_millis(millis);
    assert_eq!(reckoning.time_at(start), None);
    reckoning.observe_entry(1_000, start);
    assert_eq!(reckoning.time_at(after(50)), Some(1_050));
    reckoning.observe_entry(1_010, after(100));
    assert_eq!(
        reckoning.time_at(after(100)),
        Some(1_100),
        "an older entry does not change the clock"
    );
    reckoning.observe_entry(5_000, after(200));
    assert_eq!(reckoning.time_at(after(300)), Some(5_100));
}

/// A leader whose clock is ahead or behind must not make live claims look dead: the time since an entry was received decides.
#[test]
fn clock_of_another_leader_does_not_end_live_claims() {
    const HOUR: u64 = 3_600_000;
    let start = std::time::Instant::now();
    let after = |millis| start + Duration::from_millis(millis);
    for (old_leader, new_leader) in [(HOUR, 2 * HOUR), (2 * HOUR, HOUR)] {
        let mut clock = BrokerClock::default();
        let mut state = PermitPool::new(pool());
        for number in [1, 2] {
            let entry = claim(1, number, "puppet", number.into());
            let heard = clock.observe_entry(old_leader, start);
            state.apply_entry_at(&BucketEntry { created: old_leader, ..entry }, heard);
        }
        clock.fix();
        state.limit_ages(clock.time_at(start).unwrap());
        let beat = BucketEntry {
            key: PermitKeyKind::Beat.entry_key(1, &node(1)),
            value: Some(Bytes::from_static(b"beat")),
            revision: 3,
            created: new_leader,
        };
        let lease_end = LEASE + LEASE / 4;
        let heard = clock.observe_entry(beat.created, after(lease_end - 1));
        state.apply_entry_at(&beat, heard);
        let live = |millis| state.live_claims(clock.time_at(after(millis)).unwrap()).len();
        assert_eq!(live(lease_end - 1), 2, "the first beat of the new leader ends no claim");
        assert_eq!(live(lease_end + 1), 1, "the node without a beat is dead");
        assert_eq!(live(2 * lease_end - 1), 1);
        assert_eq!(live(2 * lease_end), 0);
    }
}

#[test]
fn clock_offset_is_zero_within_the_time_of_the_write() {
    let offset = |stored_at| crate::permits::acquisition::clock_offset(stored_at, 1_000, 1_200);
    assert_eq!([900, 1_000, 1_100, 1_200, 4_200].map(offset), [-100, 0, 0, 0, 3_000]);
}

/// The age of an entry from before this node began to read is known only by the clocks of the broker's servers.
#[test]
fn ages_of_stored_entries_have_an_allowance_for_different_clocks() {
    let allowance = 60_000;
    let lease_end = LEASE + LEASE / 4;
    for (age, is_live) in
        [(0, true), (allowance + lease_end, true), (allowance + lease_end + 1, false)]
    {
        let mut state = PermitPool::new(pool());
        let now = 10_000_000;
        state.apply_entry(&BucketEntry { created: now - age, ..claim(1, 1, "puppet", 1) });
        state.limit_ages(now);
        assert_eq!(state.live_claims(now).len(), usize::from(is_live), "{age}");
        assert_eq!(state.live_claims(now + lease_end + 1).len(), 0, "{age}");
    }
}

#[test]
fn waiting_runs_of_a_rollout_are_served_in_the_order_of_their_ids() {
    let mut state = PermitPool::new(pool());
    let rollout = Some(Uuid::from_u128(9));
    // The entries arrive as 3, 20 (another run), 1, 2.
    let arrivals = [(1, 3, rollout), (2, 20, None), (3, 1, rollout), (4, 2, rollout)];
    for (node_number, run, rollout) in arrivals {
        let run = Uuid::from_u128(run);
        let wait = WaitRecord { pool: pool(), run, priority: 0, limit: 1, lease: LEASE, rollout };
        state.apply_entry(&BucketEntry {
            key: PermitKeyKind::Wait.entry_key(1, &node(node_number)),
            value: serde_json::to_vec(&wait).ok().map(Bytes::from),
            revision: node_number.into(),
            created: 1,
        });
    }
    let runs = state.waiting_members(1);
    let runs: Vec<u128> = runs.iter().map(|member| member.run.as_u128()).collect();
    assert_eq!(runs, [1, 20, 2, 3]);
    assert!(state.is_turn_of(&node(3), 1));
}

/// A queue of 2,000 runs, of which those in this range have sent a heartbeat at this time.
fn queue(beating: std::ops::Range<u64>, at: u64) -> PermitPool {
    let mut state = PermitPool::new(pool());
    for number in 0..2_000 {
        let name = Identity::parse(&format!("n{number}")).unwrap();
        let (run, limit) = (Uuid::from_u128(number.into()), 1);
        let wait =
            WaitRecord { pool: pool(), run, priority: 0, limit, lease: LEASE, rollout: None };
        state.apply_entry(&BucketEntry {
            key: PermitKeyKind::Wait.entry_key(1, &name),
            value: serde_json::to_vec(&wait).ok().map(Bytes::from),
            revision: number + 1,
            created: 1,
        });
        if beating.contains(&number) {
            state.apply_entry(&beat(&name, 10_000 + number, at));
        }
    }
    state
}

fn beat(name: &Identity, revision: u64, at: u64) -> BucketEntry {
    let key = PermitKeyKind::Beat.entry_key(1, name);
    BucketEntry { key, value: Some(Bytes::new()), revision, created: at }
}

#[test]
fn only_runs_at_the_head_of_a_long_queue_send_frequent_heartbeats() {
    let (state, usual) = (queue(0..64, 5_000), Duration::from_secs(20));
    let interval = |number| {
        let name = Identity::parse(&format!("n{number}")).unwrap();
        state.heartbeat_interval(&name, usual, 5_000)
    };
    assert_eq!([0, 63].map(interval), [usual; 2]);
    assert_eq!([64, 1_999].map(interval), [Duration::from_secs(400); 2]);
    assert_eq!(interval(2_000), usual, "a node that does not wait");
}

/// A silent run does not block those behind it, wherever it is, and one that sends a heartbeat when it comes to the head keeps its place.
#[test]
fn silent_runs_are_left_out_when_they_come_to_the_head() {
    let name = |number: u64| Identity::parse(&format!("n{number}")).unwrap();
    let now = 100_000;
    // All but the last thousand are dead.
    let mut state = queue(1_000..2_000, now);
    assert!(state.is_turn_of(&name(1_000), now));
    assert_eq!(state.waiting_members(now).len(), 1_000);
    // The head is alive, and the rest is silent for longer than a lease: nothing is known of it.
    state = queue(0..64, now);
    assert_eq!(state.waiting_members(now).len(), 2_000);
    // The first leaves. The one that comes to the head sends a heartbeat at once.
    let gone = BucketEntry {
        key: PermitKeyKind::Wait.entry_key(1, &name(0)),
        value: None,
        revision: 20_000,
        created: now,
    };
    assert!(state.apply_entry_at(&gone, now));
    assert_eq!(state.waiting_members(now).len(), 64 - 1, "the rest is silent at the head");
    for number in 64..2_000 {
        assert!(state.apply_entry_at(&beat(&name(number), 20_001 + number, now), now));
    }
    let order: Vec<Identity> =
        state.waiting_members(now).into_iter().map(|wait| wait.node).collect();
    assert_eq!(order, (1..2_000).map(name).collect::<Vec<_>>());
    assert!(!state.apply_entry_at(&beat(&name(64), 30_000, now), now), "changes no turn");
}

/// A step of a node in the model.
#[derive(Debug, Clone, Copy)]
enum Step {
    Wait { node: u8, priority: i8, limit: u32 },
    Claim { node: u8, limit: u32 },
    Occupy { node: u8 },
    Beat { node: u8 },
    Leave { node: u8 },
    Pass { millis: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let node = 0..6_u8;
    prop_oneof![
        3 => (node.clone(), -1..2_i8, limit()).prop_map(|(node, priority, limit)| Step::Wait { node, priority, limit }),
        3 => (node.clone(), limit()).prop_map(|(node, limit)| Step::Claim { node, limit }),
        1 => node.clone().prop_map(|node| Step::Occupy { node }),
        2 => node.clone().prop_map(|node| Step::Beat { node }),
        2 => node.prop_map(|node| Step::Leave { node }),
        2 => (0..900_u64).prop_map(|millis| Step::Pass { millis }),
    ]
}

/// The limit of a run; one in four imposes none.
fn limit() -> impl Strategy<Value = u32> {
    prop_oneof![3 => 1..4_u32, 1 => Just(u32::MAX)]
}

const LEASE: u64 = 1_000;

struct World {
    at: u64,
    revision: u64,
    entries: Vec<BucketEntry>,
}

impl World {
    fn write(&mut self, sign: PermitKeyKind, node_number: u8, value: Option<Vec<u8>>) {
        self.revision += 1;
        self.entries.push(BucketEntry {
            key: sign.entry_key(1, &node(node_number)),
            value: value.map(Bytes::from),
            revision: self.revision,
            created: self.at,
        });
    }

    fn take(&mut self, step: Step) {
        let (run, lease) = (Uuid::nil(), LEASE);
        let claim = |limit, occupied| {
            serde_json::to_vec(&ClaimRecord {
                pool: pool(),
                run,
                priority: 0,
                limit,
                lease,
                occupied,
            })
            .ok()
        };
        match step {
            Step::Wait { node, priority, limit } => {
                let wait = WaitRecord { pool: pool(), run, priority, limit, lease, rollout: None };
                self.write(PermitKeyKind::Wait, node, serde_json::to_vec(&wait).ok());
            }
            Step::Claim { node, limit } => {
                self.write(PermitKeyKind::Claim, node, claim(limit, false));
            }
            Step::Occupy { node } => self.write(PermitKeyKind::Claim, node, claim(u32::MAX, true)),
            Step::Beat { node } => self.write(PermitKeyKind::Beat, node, Some(Vec::new())),
            Step::Leave { node } => {
                self.write(PermitKeyKind::Claim, node, None);
                self.write(PermitKeyKind::Wait, node, None);
            }
            Step::Pass { millis } => self.at += millis,
        }
    }
}

proptest! {
    /// For any sequence of entries: there are at most as many regular holders as each of them allows; a member that sees only the last entry of
    /// each key reaches the same state; the next turn belongs to the oldest member with the highest priority; who has a turn holds its claim.
    #[test]
    fn no_sequence_of_entries_exceeds_the_limit(
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let mut world = World { at: 1_000_000, revision: 0, entries: Vec::new() };
        let mut seen = PermitPool::new(pool());
        let mut fences = std::collections::BTreeMap::new();
        for step in steps {
            let from = world.entries.len();
            world.take(step);
            for entry in &world.entries[from..] {
                seen.apply_entry(entry);
            }
            let claims = seen.live_claims(world.at);
            let holders: Vec<_> = claims.iter().filter(|claim| seen.held_fence(&claim.node, world.at).is_some()).collect();
            let regular: Vec<_> = holders.iter().filter(|claim| !claim.occupied).collect();
            for holder in &regular {
                prop_assert!(regular.len() <= holder.limit as usize, "{holders:?}");
            }
            prop_assert_eq!(&seen.held_claims(world.at), &holders.iter().map(|claim| (*claim).clone()).collect::<Vec<_>>());
            for claim in &claims {
                let holds = seen.held_fence(&claim.node, world.at);
                if let Some(fence) = holds {
                    let earlier = fences.insert(claim.node.clone(), fence).unwrap_or(0);
                    prop_assert!(earlier <= fence, "a fence number decreased");
                }
            }
            let turns: Vec<_> = seen.waiting_members(world.at);
            let taken = claims.len();
            for (place, wait) in turns.iter().enumerate() {
                let limits = claims.iter().chain(&turns[..=place]).map(|member| member.limit);
                let free = taken + place < limits.min().unwrap() as usize;
                prop_assert_eq!(seen.is_turn_of(&wait.node, world.at), free);
            }
            let rank = |party: &crate::permits::pool::PoolMember| (Reverse(party.priority), party.revision);
            let in_order = turns.iter().map(rank).is_sorted();
            prop_assert!(in_order);
            let mut late = PermitPool::new(pool());
            let mut last = std::collections::BTreeMap::new();
            for entry in &world.entries {
                last.insert(entry.key.clone(), entry.clone());
            }
            let mut entries: Vec<_> = last.into_values().collect();
            entries.sort_by_key(|entry| entry.revision);
            for entry in &entries {
                late.apply_entry(entry);
            }
            let names = |pool: &PermitPool| pool.live_claims(world.at).into_iter().map(|claim| (claim.node, claim.revision)).collect::<Vec<_>>();
            prop_assert_eq!(names(&late), names(&seen));
        }
    }

    #[test]
    fn malformed_entries_are_ignored(key in ".{0,40}", value in proptest::collection::vec(any::<u8>(), 0..80)) {
        let mut state = PermitPool::new(pool());
        let entry = |key: String| BucketEntry { key, value: Some(Bytes::from(value.clone())), revision: 1, created: 1 };
        state.apply_entry(&entry(key));
        state.apply_entry(&entry(PermitKeyKind::Wait.entry_key(1, &node(1))));
        prop_assert!(state.live_claims(1).is_empty());
        prop_assert!(!state.is_turn_of(&node(2), 1));
    }
}
