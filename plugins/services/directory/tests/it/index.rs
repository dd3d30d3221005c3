//! After any changes, the index equals one that was built from scratch, and nothing is left over of removed nodes.

use std::collections::BTreeMap;

use muster_directory::{NodeTable, StaleRecord, StoredNode, ValuePath, find_nodes};
use muster_filter::NodeFilter;
use muster_filter::state::MapField;
use muster_wire::identity::Identity;
use muster_wire::node_record::NodeContent;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Value;

use crate::random_fleet::{RandomNode, content};

const NODES: usize = 12;
const PATHS: [&str; 10] =
    ["a", "b", "a.b", "0", "$d", "os.family", "a.0", "nosuch", "state.a", "state.os.family"];
/// Later than all records.
const NOW: u64 = 1_000_000;

#[derive(Debug, Clone)]
enum Change {
    Store(usize, Box<NodeContent>),
    Remove(usize),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let change = prop_oneof![
        3 => (0..NODES, content()).prop_map(|(node, content)| Change::Store(node, Box::new(content))),
        1 => (0..NODES).prop_map(Change::Remove),
    ];
    vec(change, 0..60)
}

fn store(table: &mut NodeTable, node: &RandomNode, time: u64) {
    let record = node.record(time);
    table.store(&record, record.decode_content().unwrap(), time, NOW).unwrap();
}

/// Counts of the values at a path, sorted.
fn facets(table: &NodeTable, path: &str) -> (Vec<(String, u64)>, u64) {
    let all = find_nodes(table, &NodeFilter::default()).unwrap();
    let (counts, absent) = table.facets(&ValuePath::parse(path).unwrap(), &all);
    let mut counts: Vec<_> =
        counts.into_iter().map(|(value, count): (Value, u64)| (value.to_string(), count)).collect();
    counts.sort_unstable();
    (counts, absent)
}

/// The same, counted node by node.
fn count_values<'a>(
    nodes: impl Iterator<Item = &'a RandomNode>,
    path: &str,
) -> (Vec<(String, u64)>, u64) {
    let (path, mut counts, mut absent) = (ValuePath::parse(path).unwrap(), BTreeMap::new(), 0);
    for node in nodes {
        let value = node.content.map(path.field).and_then(|map| map.get_path(&path.path));
        match value {
            Some(value) => *counts.entry(value.to_string()).or_default() += 1,
            None => absent += 1,
        }
    }
    (counts.into_iter().collect(), absent)
}

fn describe(table: &NodeTable, node: &StoredNode) -> String {
    let maps = MapField::ALL.map(|field| {
        table.map_of(node, field).map_or(Value::Null, |map| Value::Object(map.into_map()))
    });
    format!(
        "{} {maps:?} {:?} {} {:?} {:?} {}",
        node.identity,
        node.classes,
        node.classes_known,
        node.agents,
        node.collectives,
        node.record_time
    )
}

fn assert_same(table: &NodeTable, fresh: &NodeTable) {
    let describe_all =
        |table: &NodeTable| table.iter().map(|node| describe(table, node)).collect::<Vec<_>>();
    assert_eq!(describe_all(table), describe_all(fresh));
    assert_eq!(table.len(), fresh.len());
    assert_eq!(table.fact_values().len(), fresh.fact_values().len());
    assert_eq!(table.fact_values().text_bytes(), fresh.fact_values().text_bytes());
    assert_eq!(table.memory_bytes(), fresh.memory_bytes());
    for path in PATHS {
        assert_eq!(facets(table, path), facets(fresh, path), "{path}");
    }
    let names = |table: &NodeTable, filter: &NodeFilter| {
        let found = find_nodes(table, filter).unwrap();
        found.iter().map(|node| node.identity.to_string()).collect::<Vec<_>>()
    };
    let filters = [
        NodeFilter::default().with_class("common"),
        NodeFilter::default().with_agent("rpcutil"),
        NodeFilter::default().with_fact("a=5"),
        NodeFilter::default().with_query("{ collectives: 'second' }"),
        NodeFilter::default().with_identity("node3.acme.net"),
    ];
    for filter in filters.into_iter().map(Result::unwrap) {
        assert_eq!(names(table, &filter), names(fresh, &filter), "{}", filter.explain());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn index_after_any_changes_equals_one_built_from_scratch(changes in changes()) {
        let (mut table, mut known) = (NodeTable::default(), BTreeMap::new());
        for (time, change) in (1..).zip(changes) {
            match change {
                Change::Store(number, content) => {
                    let node = RandomNode::new(number, *content);
                    store(&mut table, &node, time);
                    known.insert(node.name.clone(), (node, time));
                }
                Change::Remove(number) => {
                    let name = Identity::parse(&format!("node{number}.acme.net")).unwrap();
                    prop_assert_eq!(table.remove(&name), known.remove(&name).is_some());
                }
            }
        }
        let mut fresh = NodeTable::default();
        for (node, time) in known.values() {
            store(&mut fresh, node, *time);
        }
        assert_same(&table, &fresh);
        for path in PATHS {
            let nodes = known.values().map(|(node, _)| node);
            prop_assert_eq!(facets(&table, path), count_values(nodes, path), "{}", path);
        }
        for name in known.keys() {
            prop_assert!(table.remove(name));
        }
        prop_assert!(table.is_empty() && table.fact_values().is_empty());
        prop_assert_eq!(table.fact_values().text_bytes(), 0);
        assert_same(&table, &NodeTable::default());
    }
}

#[test]
fn a4_7_older_record_is_refused_unless_the_known_one_is_from_the_future() {
    let node = RandomNode::new(1, NodeContent::default());
    let mut table = NodeTable::default();
    let mut put = |time: u64, now: u64| {
        let record = node.record(time);
        table
            .store(&record, record.decode_content().unwrap(), time, now)
            .map(|node| node.record_time)
    };
    assert_eq!(put(100, 100), Ok(100));
    assert_eq!(put(99, 100), Err(StaleRecord::Older));
    assert_eq!(put(100, 100), Ok(100));
    assert_eq!(put(5000, 100), Ok(5000));
    // The clock of the node was wrong, and is right now.
    assert_eq!(put(101, 101), Ok(101));
    assert_eq!(put(100, 101), Err(StaleRecord::Older));
}
