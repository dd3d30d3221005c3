//! The journal with damaged lines, and the budget of 500 nodes with the real rule of permits and a simulated clock.

use std::collections::BTreeMap;

use muster_api::wire::Millis;
use muster_api::wire::identity::{Identity, SubjectName};
use muster_bus::BucketEntry;

use crate::permits::pool::PermitPool;
use crate::permits::{ClaimRecord, PermitKeyKind, WaitRecord};
use bytes::Bytes;
use uuid::Uuid;

use crate::again::journal::{AgainJournal, JOURNAL_FILE};
use crate::again::plan::event::AgainEvent;
use crate::again::policy::AgainPolicy;

#[test]
fn torn_and_damaged_lines_of_the_journal_are_reported_and_skipped() {
    let directory = tempfile::tempdir().unwrap();
    let open = || AgainJournal::open(directory.path(), AgainPolicy::default()).unwrap();
    let mut journal = open();
    for at in 1..=3 {
        journal.record(&AgainEvent::Reset { at, by: "rip".to_owned() }).unwrap();
    }
    drop(journal);
    let path = directory.path().join(JOURNAL_FILE);
    let text = std::fs::read_to_string(&path).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 4, "a snapshot, and a line for each event");
    lines[2] = lines[2].replace("rip", "pip");
    let torn: String = lines[3].chars().take(20).collect();
    std::fs::write(&path, format!("{}\n{}\n{}\n{torn}", lines[0], lines[1], lines[2])).unwrap();
    let journal = open();
    assert_eq!(journal.state().event_count, 1, "the undamaged event");
    let warnings = journal.warnings().join("; ");
    assert!(warnings.contains("line 3 of the journal of `again` is damaged"), "{warnings}");
    assert!(warnings.contains("line 4 of the journal of `again` was cut off"), "{warnings}");
    drop(journal);
    assert!(open().warnings().is_empty(), "the file was rewritten");
}

/// The bucket of permits with entries of these nodes, all written at their times.
pub(crate) struct SimulatedBucket {
    pub(crate) pool: PermitPool,
    pub(crate) revision: u64,
}

impl SimulatedBucket {
    pub(crate) fn put(
        &mut self,
        kind: PermitKeyKind,
        node: &Identity,
        value: Option<Vec<u8>>,
        at: Millis,
    ) {
        self.revision += 1;
        self.pool.apply_entry(&BucketEntry {
            key: kind.entry_key(1, node),
            value: value.map(Bytes::from),
            revision: self.revision,
            created: at,
        });
    }
}

/// Nodes claim slots by the rule that `PermitClient` applies, hold each for a minute, and then release it, as `FleetBudget` does.
#[test]
fn a1_5_five_hundred_nodes_at_once_keep_sixty_runs_a_minute_on_a_simulated_clock() {
    const BUDGET: u32 = 60;
    let name = SubjectName::parse("again").unwrap();
    let mut bucket = SimulatedBucket { pool: PermitPool::new(name.clone()), revision: 0 };
    let node = |number: u32| Identity::parse(&format!("n{number}.example.net")).unwrap();
    let (run, lease, priority, limit) = (Uuid::nil(), 60_000, 0, BUDGET);
    let mut at = 1_800_000_000_000;
    for number in 0..500 {
        let wait = WaitRecord { pool: name.clone(), run, priority, limit, lease, rollout: None };
        bucket.put(PermitKeyKind::Wait, &node(number), serde_json::to_vec(&wait).ok(), at);
    }
    let mut started = BTreeMap::<Identity, Millis>::new();
    let mut held = Vec::<(Identity, Millis)>::new();
    let begin = at;
    while started.len() < 500 {
        assert!(at < begin + 20 * 60_000, "{} of 500 nodes ran", started.len());
        for (node, _) in held.extract_if(.., |(_, since)| at >= *since + 60_000) {
            bucket.put(PermitKeyKind::Claim, &node, None, at);
        }
        for waiting in bucket.pool.waiting_members(at) {
            if !bucket.pool.is_turn_of(&waiting.node, at) {
                break;
            }
            let claim =
                ClaimRecord { pool: name.clone(), run, priority, limit, lease, occupied: false };
            let node = waiting.node;
            bucket.put(PermitKeyKind::Claim, &node, serde_json::to_vec(&claim).ok(), at);
            assert!(bucket.pool.held_fence(&node, at).is_some());
            bucket.put(PermitKeyKind::Wait, &node, None, at);
            assert_eq!(started.insert(node.clone(), at), None, "each node runs once");
            held.push((node, at));
        }
        at += 500;
        if (at - begin).is_multiple_of(20_000) {
            for number in 0..500 {
                bucket.put(
                    PermitKeyKind::Beat,
                    &node(number),
                    Some(run.to_string().into_bytes()),
                    at,
                );
            }
        }
    }
    let mut starts: Vec<Millis> = started.into_values().collect();
    starts.sort_unstable();
    for window in starts.windows(BUDGET as usize + 1) {
        assert!(window[BUDGET as usize] - window[0] >= 60_000);
    }
    assert!(at - begin <= 9 * 60_000 + 1000, "nothing is delayed longer than needed");
}
