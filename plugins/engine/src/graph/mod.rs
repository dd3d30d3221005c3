//! Who comes before whom, and whose change refreshes whom: the catalog as a graph, in Puppet 7's sense.
//!
//! A container is two anchors: whatever depends on it waits for its end, and what it holds lies between its begin and its end.
//! Refreshes pass through anchors, so that notifying a class refreshes what is in it. Pure; [`order`] walks it, [`cycle`] finds
//! what cannot be walked.

pub(crate) mod build;
pub(crate) mod cycle;
pub(crate) mod order;

use std::collections::{BTreeMap, BTreeSet};

use crate::resolved_catalog::MemberId;

/// The index of a node.
pub(crate) type GraphNodeId = usize;

/// Where a node stands among others that could be next: as the catalog is written, what was generated below its bringer.
pub(crate) type NodePriority = Vec<u32>;

/// What a node stands for.
#[derive(Debug, Clone)]
pub(crate) enum GraphNode {
    /// A resource.
    Resource(MemberId),
    /// The begin or end of a container, or the end of what a resource brought with it.
    Anchor(ContainerAnchor),
}

/// A place in the order that is no resource.
#[derive(Debug, Clone)]
pub(crate) struct ContainerAnchor {
    /// `Class[Web]`.
    pub(crate) name: String,
    /// The tags of what it belongs to.
    pub(crate) tags: Vec<String>,
}

/// All nodes and edges.
#[derive(Debug, Default)]
pub(crate) struct DependencyGraph {
    nodes: Vec<GraphNode>,
    priorities: Vec<NodePriority>,
    /// How often a change of the one refreshes the other: 0 when it is only about order.
    out: Vec<BTreeMap<GraphNodeId, u32>>,
    into: Vec<BTreeSet<GraphNodeId>>,
    /// How many nodes were placed below a node.
    below: BTreeMap<GraphNodeId, u32>,
}

impl DependencyGraph {
    pub(crate) fn add_node(&mut self, node: GraphNode, priority: NodePriority) -> GraphNodeId {
        self.nodes.push(node);
        self.priorities.push(priority);
        self.out.push(BTreeMap::new());
        self.into.push(BTreeSet::new());
        self.nodes.len() - 1
    }

    /// The next place below a node.
    pub(crate) fn priority_below(&mut self, node: GraphNodeId) -> NodePriority {
        let below = self.below.entry(node).or_default();
        *below += 1;
        let mut priority = self.priorities.get(node).cloned().unwrap_or_default();
        priority.push(*below);
        priority
    }

    /// Adds an edge; each refreshing one counts.
    pub(crate) fn add_edge(&mut self, from: GraphNodeId, to: GraphNodeId, refresh: bool) {
        self.add_counted_edge(from, to, u32::from(refresh));
    }

    fn add_counted_edge(&mut self, from: GraphNodeId, to: GraphNodeId, refreshes: u32) {
        if let (Some(out), Some(into)) = (self.out.get_mut(from), self.into.get_mut(to)) {
            *out.entry(to).or_default() += refreshes;
            into.insert(from);
        }
    }

    /// Takes an edge away, and says how often it refreshed.
    pub(crate) fn remove_edge(&mut self, from: GraphNodeId, to: GraphNodeId) -> Option<u32> {
        self.into.get_mut(to)?.remove(&from);
        self.out.get_mut(from)?.remove(&to)
    }

    /// Moves the edges that leave a node to another one, but for those to the nodes that stay.
    pub(crate) fn move_outgoing_edges(
        &mut self,
        from: GraphNodeId,
        to: GraphNodeId,
        stay: &BTreeSet<GraphNodeId>,
    ) {
        let targets: Vec<GraphNodeId> = self
            .outgoing_edges(from)
            .map(|(target, _)| target)
            .collect();
        for target in targets.into_iter().filter(|target| !stay.contains(target)) {
            if let Some(refreshes) = self.remove_edge(from, target) {
                self.add_counted_edge(to, target, refreshes);
            }
        }
    }

    pub(crate) fn has_edge(&self, from: GraphNodeId, to: GraphNodeId) -> bool {
        self.out.get(from).is_some_and(|out| out.contains_key(&to))
    }

    pub(crate) fn get_node(&self, id: GraphNodeId) -> Option<&GraphNode> {
        self.nodes.get(id)
    }

    pub(crate) fn node_priority(&self, id: GraphNodeId) -> &[u32] {
        self.priorities.get(id).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Who comes right after it, and how often a change refreshes them.
    pub(crate) fn outgoing_edges(
        &self,
        id: GraphNodeId,
    ) -> impl Iterator<Item = (GraphNodeId, u32)> + '_ {
        self.out
            .get(id)
            .into_iter()
            .flatten()
            .map(|(to, refreshes)| (*to, *refreshes))
    }

    /// Who comes right before it.
    pub(crate) fn predecessors(&self, id: GraphNodeId) -> impl Iterator<Item = GraphNodeId> + '_ {
        self.into.get(id).into_iter().flatten().copied()
    }

    /// The resources that a change of this one refreshes, through anchors, but not through other resources.
    pub(crate) fn refresh_targets(&self, id: GraphNodeId) -> BTreeSet<MemberId> {
        let mut found = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let mut open = vec![id];
        while let Some(node) = open.pop() {
            for (target, refreshes) in self.outgoing_edges(node) {
                if refreshes == 0 || !seen.insert(target) {
                    continue;
                }
                match self.get_node(target) {
                    Some(GraphNode::Resource(member)) => {
                        found.insert(*member);
                    }
                    Some(GraphNode::Anchor(_)) => open.push(target),
                    None => {}
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests;
