//! The memory of an index: the estimate is near what the process takes, and records beyond the limit change nothing.

use std::collections::BTreeMap;

use muster_directory::NodeTable;
use muster_filter::state::{MapField, NodeFacts};
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::node_record::{NodeContent, NodeRecord};
use serde_json::{Value, json};

const NOW: u64 = 1_000_000;
const MIB: usize = 1024 * 1024;
/// Most classes and facts of a record.
const CLASSES: usize = 10_000;
const FACTS: usize = 5000;

/// A node's content with names and values that no other node has, or all have.
fn content(node: usize, classes: usize, facts: usize, is_unique: bool) -> NodeContent {
    let owner = if is_unique { node } else { 0 };
    let facts: BTreeMap<String, Value> =
        (0..facts).map(|fact| (format!("f{owner}_{fact}"), json!(fact))).collect();
    NodeContent {
        version: "0.1.0".to_owned(),
        collectives: vec![SubjectName::parse("muster").unwrap()],
        classes: Some((0..classes).map(|class| format!("c{owner}_{class}")).collect()),
        facts: NodeFacts::from_map(facts.into_iter().collect()).unwrap(),
        heartbeat_seconds: 60,
        ..NodeContent::default()
    }
}

fn store(table: &mut NodeTable, node: usize, time: u64, content: NodeContent) -> Option<String> {
    let sender = Identity::parse(&format!("node{node}.acme.net")).unwrap();
    let digest = String::new();
    let record = NodeRecord { sender, time, digest, content: String::new(), history: None };
    table.store(&record, content, time, NOW).unwrap();
    table.problem_of(&record.sender).map(str::to_owned)
}

/// Anonymous memory of this process, in bytes.
fn process_bytes() -> usize {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let line = rollup.lines().find_map(|line| line.strip_prefix("Anonymous:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<usize>().unwrap() * 1024
}

/// Fills an index and compares the estimate with the growth of the process, which must be new: memory that was released earlier is used again.
fn check_estimate(nodes: usize, (classes, facts): (usize, usize), is_unique: bool) {
    let contents: Vec<NodeContent> =
        (0..nodes).map(|node| content(node, classes, facts, is_unique)).collect();
    let (mut table, before) = (NodeTable::default(), process_bytes());
    // The contents are kept, so that none of their memory is used again.
    for (node, content) in contents.iter().enumerate() {
        store(&mut table, node, 1, content.clone());
    }
    let (taken, estimate) = (process_bytes().saturating_sub(before), table.memory_bytes());
    assert!(taken > 4 * MIB, "{taken} bytes are too few to compare");
    let is_near = estimate > taken / 2 && estimate < taken * 2;
    assert!(is_near, "{taken} bytes, estimated as {estimate}");
}

#[test]
fn estimate_is_within_a_factor_for_nodes_with_many_classes() {
    check_estimate(6, (CLASSES, 0), true);
}

#[test]
fn estimate_is_within_a_factor_for_nodes_with_many_facts() {
    check_estimate(12, (0, FACTS), true);
}

#[test]
fn estimate_is_within_a_factor_for_nodes_with_the_same_facts() {
    check_estimate(600, (500, 500), false);
}

#[test]
fn large_records_leave_memory_for_small_ones_and_a_refused_one_changes_nothing() {
    const LIMIT_MIB: u32 = 16;
    let mut table = NodeTable::with_memory_mib(LIMIT_MIB);
    let small = |node, tier: &str| {
        let facts = NodeFacts::from_value(json!({"tier": tier, "name": node})).unwrap();
        NodeContent { facts, ..content(node, 10, 0, false) }
    };
    assert_eq!(store(&mut table, 0, 1, small(0, "first")), None);
    let refused: Vec<String> = (1..100)
        .filter_map(|node| store(&mut table, node, 1, content(node, CLASSES, 0, true)))
        .collect();
    assert!(refused.len() > 80, "{}", refused.len());
    assert!(refused[0].contains("plugins.directory.memory_mib = 16"), "{}", refused[0]);
    assert_eq!(table.len(), 100);
    assert!(table.memory_bytes() <= 2 * LIMIT_MIB as usize * MIB, "{}", table.memory_bytes());
    // New nodes and changes of known ones are taken.
    for node in 100..1000 {
        assert_eq!(store(&mut table, node, 1, small(node, "later")), None, "{node}");
    }
    assert_eq!(store(&mut table, 0, 2, small(0, "changed")), None);
    // A node that becomes large keeps what was known, until it is small again.
    let problem = store(&mut table, 0, 3, content(0, CLASSES, FACTS, true));
    assert!(problem.is_some(), "{}", table.memory_bytes());
    let node = table.get(&Identity::parse("node0.acme.net").unwrap()).unwrap();
    assert_eq!((node.record_time, node.classes.len()), (2, 10));
    assert_eq!(table.map_of(node, MapField::Facts).unwrap().get("tier"), Some(&json!("changed")));
    assert_eq!(store(&mut table, 0, 4, small(0, "last")), None);
    assert!(table.memory_bytes() <= 2 * LIMIT_MIB as usize * MIB, "{}", table.memory_bytes());
    // Nothing is left over.
    for node in 0..1000 {
        assert!(table.remove(&Identity::parse(&format!("node{node}.acme.net")).unwrap()));
    }
    assert_eq!(table.memory_bytes(), 0);
}
