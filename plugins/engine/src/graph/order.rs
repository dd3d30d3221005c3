//! Topological order; ties are broken by catalog order.

use std::collections::BTreeSet;

use super::{DependencyGraph, GraphNodeId, NodePriority};

/// A traversal in progress.
#[derive(Debug)]
pub(crate) struct GraphTraversal {
    ready: BTreeSet<(NodePriority, GraphNodeId)>,
    /// Number of unfinished predecessors of each node; `None` for finished nodes.
    waits: Vec<Option<usize>>,
}

impl GraphTraversal {
    /// A traversal at its start.
    pub(crate) fn new(graph: &DependencyGraph) -> Self {
        let waits: Vec<_> = (0..graph.len())
            .map(|node| Some(graph.predecessors(node).count()))
            .collect();
        let mut walk = Self {
            ready: BTreeSet::new(),
            waits,
        };
        for node in 0..graph.len() {
            walk.push_if_ready(graph, node);
        }
        walk
    }

    fn push_if_ready(&mut self, graph: &DependencyGraph, node: GraphNodeId) {
        if self.waits.get(node).copied().flatten() == Some(0) {
            let key = (graph.node_priority(node).to_vec(), node);
            self.ready.insert(key);
        }
    }

    /// The next node; `None` when all are finished, or the rest is on cycles.
    pub(crate) fn next(&mut self) -> Option<GraphNodeId> {
        self.ready.pop_first().map(|(_, node)| node)
    }

    /// Marks a node as finished and decrements the counters of its successors.
    pub(crate) fn finish_node(&mut self, graph: &DependencyGraph, node: GraphNodeId) {
        if let Some(waits) = self.waits.get_mut(node) {
            *waits = None;
        }
        for (after, _) in graph.outgoing_edges(node) {
            if let Some(Some(waits)) = self.waits.get_mut(after) {
                *waits = waits.saturating_sub(1);
            }
            self.push_if_ready(graph, after);
        }
    }

    /// Recomputes the counters after nodes and edges were added during the evaluation of a node.
    pub(crate) fn recount_dependencies(&mut self, graph: &DependencyGraph) {
        self.waits.resize(graph.len(), Some(0));
        let finished: Vec<bool> = self.waits.iter().map(Option::is_none).collect();
        for node in 0..graph.len() {
            if finished.get(node) == Some(&true) {
                continue;
            }
            let open = |before: &GraphNodeId| finished.get(*before) == Some(&false);
            let count = graph.predecessors(node).filter(open).count();
            if let Some(waits) = self.waits.get_mut(node) {
                *waits = Some(count);
            }
        }
        let waits = &self.waits;
        self.ready
            .retain(|(_, node)| waits.get(*node).copied().flatten() == Some(0));
    }
}
