//! The order in which nodes are seen to: whoever waits for nobody, as the catalog is written.

use std::collections::BTreeSet;

use super::{Graph, NodeId, Priority};

/// Who is next.
#[derive(Debug)]
pub(crate) struct Walk {
    ready: BTreeSet<(Priority, NodeId)>,
    /// For how many a node still waits; `None` for those that were finished.
    waits: Vec<Option<usize>>,
}

impl Walk {
    /// A walk that has not begun.
    pub(crate) fn new(graph: &Graph) -> Self {
        let waits: Vec<_> = (0..graph.len())
            .map(|node| Some(graph.before(node).count()))
            .collect();
        let mut walk = Self {
            ready: BTreeSet::new(),
            waits,
        };
        for node in 0..graph.len() {
            walk.offer(graph, node);
        }
        walk
    }

    fn offer(&mut self, graph: &Graph, node: NodeId) {
        if self.waits.get(node).copied().flatten() == Some(0) {
            let key = (graph.priority(node).to_vec(), node);
            self.ready.insert(key);
        }
    }

    /// The next node; `None` when all were seen to, or the rest waits for itself.
    pub(crate) fn next(&mut self) -> Option<NodeId> {
        self.ready.pop_first().map(|(_, node)| node)
    }

    /// A node was seen to: those that waited for it wait for one less.
    pub(crate) fn finish(&mut self, graph: &Graph, node: NodeId) {
        if let Some(waits) = self.waits.get_mut(node) {
            *waits = None;
        }
        for (after, _) in graph.after(node) {
            if let Some(Some(waits)) = self.waits.get_mut(after) {
                *waits = waits.saturating_sub(1);
            }
            self.offer(graph, after);
        }
    }

    /// Nodes and edges were added while the node is being seen to: counts anew who waits for whom.
    pub(crate) fn recount(&mut self, graph: &Graph) {
        self.waits.resize(graph.len(), Some(0));
        let finished: Vec<bool> = self.waits.iter().map(Option::is_none).collect();
        for node in 0..graph.len() {
            if finished.get(node) == Some(&true) {
                continue;
            }
            let open = |before: &NodeId| finished.get(*before) == Some(&false);
            let count = graph.before(node).filter(open).count();
            if let Some(waits) = self.waits.get_mut(node) {
                *waits = Some(count);
            }
        }
        let waits = &self.waits;
        self.ready
            .retain(|(_, node)| waits.get(*node).copied().flatten() == Some(0));
    }
}
