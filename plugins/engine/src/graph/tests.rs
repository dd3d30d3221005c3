//! Traversal order and cycles of random graphs, compared with simple models.

use proptest::prelude::*;

use super::order::GraphTraversal;
use super::{ContainerAnchor, DependencyGraph, GraphNode, cycle};
use crate::resolved_catalog::ResolvedCatalog;

const MOST: usize = 9;

fn graphs() -> impl Strategy<Value = (usize, Vec<(usize, usize, bool)>)> {
    (1..MOST).prop_flat_map(|nodes| {
        let edge = (0..nodes, 0..nodes, any::<bool>());
        (Just(nodes), prop::collection::vec(edge, 0..nodes * 2))
    })
}

fn graph(nodes: usize, edges: &[(usize, usize, bool)]) -> DependencyGraph {
    let mut graph = DependencyGraph::default();
    for node in 0..nodes {
        let anchor = ContainerAnchor { name: format!("Class[{node}]"), tags: Vec::new() };
        let position = u32::try_from(node).expect("small");
        graph.add_node(GraphNode::Anchor(anchor), vec![position]);
    }
    for (from, to, refresh) in edges {
        graph.add_edge(*from, *to, *refresh);
    }
    graph
}

/// The transitive closure: `[from][to]` is true if a path of at least one edge exists.
fn reached(nodes: usize, edges: &[(usize, usize, bool)]) -> Vec<Vec<bool>> {
    let mut reached = vec![vec![false; nodes]; nodes];
    for (from, to, _) in edges {
        reached[*from][*to] = true;
    }
    for over in 0..nodes {
        for from in 0..nodes {
            for to in 0..nodes {
                reached[from][to] |= reached[from][over] && reached[over][to];
            }
        }
    }
    reached
}

/// The model of the order: of all nodes without pending dependencies, the first of the catalog.
fn expected(nodes: usize, edges: &[(usize, usize, bool)]) -> Vec<usize> {
    let mut done: Vec<usize> = Vec::new();
    loop {
        let is_ready = |node: &usize| {
            let waits = |(from, to, _): &(usize, usize, bool)| to == node && !done.contains(from);
            !done.contains(node) && !edges.iter().any(waits)
        };
        match (0..nodes).find(is_ready) {
            Some(node) => done.push(node),
            None => return done,
        }
    }
}

fn walked(graph: &DependencyGraph) -> Vec<usize> {
    let mut walk = GraphTraversal::new(graph);
    let mut order = Vec::new();
    while let Some(node) = walk.next() {
        order.push(node);
        walk.finish_node(graph, node);
    }
    order
}

proptest! {
    #[test]
    fn traversal_order_equals_the_model((nodes, edges) in graphs()) {
        prop_assert_eq!(walked(&graph(nodes, &edges)), expected(nodes, &edges));
    }

    #[test]
    fn cycles_are_found_where_a_node_reaches_itself((nodes, edges) in graphs()) {
        let graph = graph(nodes, &edges);
        let reached = reached(nodes, &edges);
        let mut found: Vec<usize> = cycle::find_cycles(&graph).into_iter().flatten().collect();
        found.sort_unstable();
        let waiting: Vec<usize> = (0..nodes).filter(|node| reached[*node][*node]).collect();
        prop_assert_eq!(&found, &waiting);
        for group in cycle::find_cycles(&graph) {
            let path = cycle::shortest_cycle_path(&graph, &ResolvedCatalog::default(), &group);
            prop_assert_eq!(path.first(), path.last());
        }
    }

    /// A traversal recounts after resources were added; without additions this has no effect.
    #[test]
    fn recounting_dependencies_keeps_the_order((nodes, edges) in graphs()) {
        let graph = graph(nodes, &edges);
        let mut walk = GraphTraversal::new(&graph);
        let mut order = Vec::new();
        while let Some(node) = walk.next() {
            order.push(node);
            walk.recount_dependencies(&graph);
            walk.finish_node(&graph, node);
        }
        prop_assert_eq!(order, expected(nodes, &edges));
    }

    #[test]
    fn anchors_are_no_refresh_targets_and_refresh_edges_are_counted((nodes, edges) in graphs()) {
        let refreshing: Vec<_> = edges.iter().copied().filter(|(_, _, refresh)| *refresh).collect();
        let graph = graph(nodes, &edges);
        // All nodes are anchors, so no resource is a target; the search also ends in a cycle.
        for node in 0..nodes {
            prop_assert!(graph.refresh_targets(node).is_empty());
        }
        let times: u32 = (0..nodes).flat_map(|node| graph.outgoing_edges(node)).map(|(_, times)| times).sum();
        prop_assert_eq!(usize::try_from(times).expect("small"), refreshing.len());
    }
}
