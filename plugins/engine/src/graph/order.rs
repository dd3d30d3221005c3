//! Topological order; ties are broken by catalog order.

use std::collections::BTreeSet;

use super::{DependencyGraph, GraphNodeId, NodePriority};

#[derive(Debug)]
pub(crate) struct GraphTraversal {
    ready: BTreeSet<(NodePriority, GraphNodeId)>,
    /// Number of unfinished predecessors of each node; `None` for finished nodes.
    waiting_for: Vec<Option<usize>>,
}

impl GraphTraversal {
    pub(crate) fn new(graph: &DependencyGraph) -> Self {
        let waiting_for: Vec<_> =
            (0..graph.len()).map(|node| Some(graph.predecessors(node).count())).collect();
        let mut traversal = Self { ready: BTreeSet::new(), waiting_for };
        for node in 0..graph.len() {
            traversal.push_if_ready(graph, node);
        }
        traversal
    }

    fn push_if_ready(&mut self, graph: &DependencyGraph, node: GraphNodeId) {
        if self.waiting_for.get(node).copied().flatten() == Some(0) {
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
        if let Some(waiting_for) = self.waiting_for.get_mut(node) {
            *waiting_for = None;
        }
        for (successor, _) in graph.outgoing_edges(node) {
            if let Some(Some(waiting_for)) = self.waiting_for.get_mut(successor) {
                *waiting_for = waiting_for.saturating_sub(1);
            }
            self.push_if_ready(graph, successor);
        }
    }

    /// Recomputes the counters after nodes and edges were added during the evaluation of a node.
    pub(crate) fn recount_dependencies(&mut self, graph: &DependencyGraph) {
        self.waiting_for.resize(graph.len(), Some(0));
        let finished: Vec<bool> = self.waiting_for.iter().map(Option::is_none).collect();
        for node in 0..graph.len() {
            if finished.get(node) == Some(&true) {
                continue;
            }
            let is_unfinished =
                |predecessor: &GraphNodeId| finished.get(*predecessor) == Some(&false);
            let count = graph.predecessors(node).filter(is_unfinished).count();
            if let Some(waiting_for) = self.waiting_for.get_mut(node) {
                *waiting_for = Some(count);
            }
        }
        let waiting_for = &self.waiting_for;
        self.ready.retain(|(_, node)| waiting_for.get(*node).copied().flatten() == Some(0));
    }
}
