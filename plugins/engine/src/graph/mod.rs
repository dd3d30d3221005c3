//! Who comes before whom, and whose change refreshes whom: the catalog as a graph, in Puppet 7's sense.
//!
//! A container is two anchors: whatever depends on it waits for its end, and what it holds lies between its begin and its end.
//! Refreshes pass through anchors, so that notifying a class refreshes what is in it. Pure; [`order`] walks it, [`cycle`] finds
//! what cannot be walked.

pub(crate) mod build;
pub(crate) mod cycle;
pub(crate) mod order;

use std::collections::{BTreeMap, BTreeSet};

use crate::world::MemberId;

/// The index of a node.
pub(crate) type NodeId = usize;

/// Where a node stands among others that could be next: as the catalog is written, what was generated below its bringer.
pub(crate) type Priority = Vec<u32>;

/// What a node stands for.
#[derive(Debug, Clone)]
pub(crate) enum Node {
    /// A resource.
    Resource(MemberId),
    /// The begin or end of a container, or the end of what a resource brought with it.
    Anchor(Anchor),
}

/// A place in the order that is no resource.
#[derive(Debug, Clone)]
pub(crate) struct Anchor {
    /// `Class[Web]`.
    pub(crate) name: String,
    /// The tags of what it belongs to.
    pub(crate) tags: Vec<String>,
}

/// All nodes and edges.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    nodes: Vec<Node>,
    priorities: Vec<Priority>,
    /// How often a change of the one refreshes the other: 0 when it is only about order.
    out: Vec<BTreeMap<NodeId, u32>>,
    into: Vec<BTreeSet<NodeId>>,
    /// How many nodes were placed below a node.
    below: BTreeMap<NodeId, u32>,
}

impl Graph {
    pub(crate) fn add(&mut self, node: Node, priority: Priority) -> NodeId {
        self.nodes.push(node);
        self.priorities.push(priority);
        self.out.push(BTreeMap::new());
        self.into.push(BTreeSet::new());
        self.nodes.len() - 1
    }

    /// The next place below a node.
    pub(crate) fn priority_below(&mut self, node: NodeId) -> Priority {
        let below = self.below.entry(node).or_default();
        *below += 1;
        let mut priority = self.priorities.get(node).cloned().unwrap_or_default();
        priority.push(*below);
        priority
    }

    /// Adds an edge; each refreshing one counts.
    pub(crate) fn connect(&mut self, from: NodeId, to: NodeId, refresh: bool) {
        self.connect_times(from, to, u32::from(refresh));
    }

    fn connect_times(&mut self, from: NodeId, to: NodeId, refreshes: u32) {
        if let (Some(out), Some(into)) = (self.out.get_mut(from), self.into.get_mut(to)) {
            *out.entry(to).or_default() += refreshes;
            into.insert(from);
        }
    }

    /// Takes an edge away, and says how often it refreshed.
    pub(crate) fn disconnect(&mut self, from: NodeId, to: NodeId) -> Option<u32> {
        self.into.get_mut(to)?.remove(&from);
        self.out.get_mut(from)?.remove(&to)
    }

    /// Moves the edges that leave a node to another one, but for those to the nodes that stay.
    pub(crate) fn move_outgoing(&mut self, from: NodeId, to: NodeId, stay: &BTreeSet<NodeId>) {
        let targets: Vec<NodeId> = self.after(from).map(|(target, _)| target).collect();
        for target in targets.into_iter().filter(|target| !stay.contains(target)) {
            if let Some(refreshes) = self.disconnect(from, target) {
                self.connect_times(to, target, refreshes);
            }
        }
    }

    pub(crate) fn has_edge(&self, from: NodeId, to: NodeId) -> bool {
        self.out.get(from).is_some_and(|out| out.contains_key(&to))
    }

    pub(crate) fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id)
    }

    pub(crate) fn priority(&self, id: NodeId) -> &[u32] {
        self.priorities.get(id).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Who comes right after it, and how often a change refreshes them.
    pub(crate) fn after(&self, id: NodeId) -> impl Iterator<Item = (NodeId, u32)> + '_ {
        self.out
            .get(id)
            .into_iter()
            .flatten()
            .map(|(to, refreshes)| (*to, *refreshes))
    }

    /// Who comes right before it.
    pub(crate) fn before(&self, id: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        self.into.get(id).into_iter().flatten().copied()
    }

    /// The resources that a change of this one refreshes, through anchors, but not through other resources.
    pub(crate) fn refreshed_by(&self, id: NodeId) -> BTreeSet<MemberId> {
        let mut found = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let mut open = vec![id];
        while let Some(node) = open.pop() {
            for (target, refreshes) in self.after(node) {
                if refreshes == 0 || !seen.insert(target) {
                    continue;
                }
                match self.node(target) {
                    Some(Node::Resource(member)) => {
                        found.insert(*member);
                    }
                    Some(Node::Anchor(_)) => open.push(target),
                    None => {}
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests;
