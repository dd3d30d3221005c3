//! A4.6: the nodes themselves, the directory's index and an inventory file give the same answers.

use std::collections::BTreeSet;

use muster_calls::DiscoveryQuery;
use muster_calls::discovery::inventory::{FleetInventory, InventoryNode};
use muster_directory::{NodeTable, find_nodes};
use muster_filter::NodeFilter;
use muster_filter::state::MapField;
use muster_wire::identity::Identity;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, TestRunner};

use crate::random_filters::{build_filter, flags};
use crate::random_fleet::{RandomNode, content};

const NODES: usize = 200;
const QUERIES: u32 = 1000;

/// The same fleet three times.
struct ThreeFleets {
    nodes: Vec<RandomNode>,
    table: NodeTable,
    inventory: FleetInventory,
}

impl ThreeFleets {
    fn new() -> Self {
        let mut runner = TestRunner::deterministic();
        let contents = vec(content(), NODES).new_tree(&mut runner).unwrap().current();
        let nodes: Vec<RandomNode> = contents
            .into_iter()
            .enumerate()
            .map(|(number, content)| RandomNode::new(number, content))
            .collect();
        let mut table = NodeTable::default();
        for node in &nodes {
            let record = node.record(1);
            table.store(&record, record.decode_content().unwrap(), 1, 2).unwrap();
        }
        let mut inventory = FleetInventory::new(Vec::new());
        inventory.nodes = nodes.iter().map(inventory_node).collect();
        // As a file has it.
        let text = serde_json::to_string(&inventory).unwrap();
        let inventory = FleetInventory::parse(&text, None).unwrap();
        Self { nodes, table, inventory }
    }

    fn live(&self, filter: &NodeFilter) -> BTreeSet<Identity> {
        let matching = self.nodes.iter().filter(|node| filter.matches(&node.view()));
        matching.map(|node| node.name.clone()).collect()
    }

    fn stored(&self, filter: &NodeFilter) -> Vec<Identity> {
        let found = find_nodes(&self.table, filter).unwrap();
        found.into_iter().map(|node| node.identity.clone()).collect()
    }

    /// An inventory cannot say that the classes of a node are unknown, so such nodes are left out of the comparison.
    fn with_known_classes(&self, mut names: BTreeSet<Identity>) -> BTreeSet<Identity> {
        for node in self.nodes.iter().filter(|node| node.content.classes.is_none()) {
            names.remove(&node.name);
        }
        names
    }
}

fn inventory_node(node: &RandomNode) -> InventoryNode {
    InventoryNode {
        name: node.name.to_string(),
        collectives: node.collectives.clone(),
        facts: node.content.facts.clone(),
        classes: node.classes.clone(),
        agents: node.agents.clone(),
        state: node.content.map(MapField::State).cloned(),
    }
}

#[test]
fn a4_6_live_stored_and_file_are_equal_for_random_queries() {
    let fleets = ThreeFleets::new();
    let config = Config {
        cases: QUERIES,
        max_global_rejects: QUERIES,
        failure_persistence: None,
        ..Config::default()
    };
    let mut runner = TestRunner::new(config);
    let mut matched = 0;
    let filters = flags().prop_filter_map("the filter is refused", |flags| build_filter(&flags));
    let outcome = runner.run(&filters, |filter| {
        let live = fleets.live(&filter);
        let stored = fleets.stored(&filter);
        prop_assert!(stored.is_sorted(), "{}", filter.explain());
        let stored: BTreeSet<Identity> = stored.into_iter().collect();
        prop_assert_eq!(&stored, &live, "{}", filter.explain());
        // A request carries the filter as JSON.
        let carried: NodeFilter =
            serde_json::from_str(&serde_json::to_string(&filter).unwrap()).unwrap();
        prop_assert_eq!(&fleets.live(&carried), &live, "{}", filter.explain());
        let query = DiscoveryQuery { filter: filter.clone(), ..DiscoveryQuery::default() };
        let file = fleets.inventory.find_nodes(&query).unwrap();
        prop_assert_eq!(
            fleets.with_known_classes(file),
            fleets.with_known_classes(live),
            "{}",
            filter.explain()
        );
        Ok(())
    });
    outcome.unwrap();
    let mut check = TestRunner::deterministic();
    for _ in 0..QUERIES {
        let filter = filters.new_tree(&mut check).unwrap().current();
        matched += usize::from((1..NODES).contains(&fleets.live(&filter).len()));
    }
    // Queries that match all nodes or none would prove little.
    assert!(matched > QUERIES as usize / 4, "only {matched} queries match some nodes");
}
