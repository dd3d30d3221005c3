//! Dependencies that lead back to where they began, and how to tell somebody.

use std::collections::{BTreeSet, VecDeque};

use super::{Graph, Node, NodeId};
use crate::world::World;

/// Every group of nodes that wait for each other, each in the order of the nodes (Tarjan's algorithm, without recursion).
pub(crate) fn cycles(graph: &Graph) -> Vec<Vec<NodeId>> {
    let mut search = Search {
        index: vec![None; graph.len()],
        low: vec![0; graph.len()],
        on_stack: vec![false; graph.len()],
        stack: Vec::new(),
        next: 0,
        found: Vec::new(),
    };
    for root in 0..graph.len() {
        if search.index.get(root).is_some_and(Option::is_none) {
            search.from(graph, root);
        }
    }
    search.found.retain(|group| match group.as_slice() {
        [one] => graph.has_edge(*one, *one),
        _ => true,
    });
    search.found
}

struct Search {
    index: Vec<Option<usize>>,
    low: Vec<usize>,
    on_stack: Vec<bool>,
    stack: Vec<NodeId>,
    next: usize,
    found: Vec<Vec<NodeId>>,
}

impl Search {
    fn enter(&mut self, node: NodeId) {
        if let (Some(index), Some(low), Some(on_stack)) = (
            self.index.get_mut(node),
            self.low.get_mut(node),
            self.on_stack.get_mut(node),
        ) {
            (*index, *low, *on_stack) = (Some(self.next), self.next, true);
        }
        self.next += 1;
        self.stack.push(node);
    }

    fn lower(&mut self, node: NodeId, to: usize) {
        if let Some(low) = self.low.get_mut(node) {
            *low = (*low).min(to);
        }
    }

    fn from(&mut self, graph: &Graph, root: NodeId) {
        self.enter(root);
        let mut path: Vec<(NodeId, Vec<NodeId>)> = vec![(root, targets(graph, root))];
        while let Some((node, open)) = path.last_mut() {
            let node = *node;
            let Some(target) = open.pop() else {
                path.pop();
                let low = self.low.get(node).copied().unwrap_or_default();
                if let Some((parent, _)) = path.last() {
                    self.lower(*parent, low);
                }
                self.close(node, low);
                continue;
            };
            match self.index.get(target).copied().flatten() {
                None => {
                    self.enter(target);
                    path.push((target, targets(graph, target)));
                }
                Some(index) if self.on_stack.get(target) == Some(&true) => self.lower(node, index),
                Some(_) => {}
            }
        }
    }

    /// When nothing above is reached from the node, what is on the stack since then is a group.
    fn close(&mut self, node: NodeId, low: usize) {
        if self.index.get(node).copied().flatten() != Some(low) {
            return;
        }
        let mut group = Vec::new();
        while let Some(member) = self.stack.pop() {
            if let Some(on_stack) = self.on_stack.get_mut(member) {
                *on_stack = false;
            }
            group.push(member);
            if member == node {
                break;
            }
        }
        group.sort_unstable();
        self.found.push(group);
    }
}

fn targets(graph: &Graph, node: NodeId) -> Vec<NodeId> {
    graph.after(node).map(|(target, _)| target).collect()
}

/// A shortest way round, as names: `File[/a] => File[/b] => File[/a]`. What follows itself (begin and end of a class) is said once.
pub(crate) fn path(graph: &Graph, world: &World, group: &[NodeId]) -> Vec<String> {
    let members: BTreeSet<NodeId> = group.iter().copied().collect();
    // From a resource, if there is one: its name says most.
    let is_resource = |id: &&NodeId| matches!(graph.node(**id), Some(Node::Resource(_)));
    let Some(&start) = group.iter().find(is_resource).or(group.first()) else {
        return Vec::new();
    };
    let mut came_from = vec![None; graph.len()];
    let mut open = VecDeque::from([start]);
    'search: while let Some(node) = open.pop_front() {
        for (target, _) in graph.after(node).filter(|(to, _)| members.contains(to)) {
            let Some(entry) = came_from.get_mut(target).filter(|entry| entry.is_none()) else {
                continue;
            };
            *entry = Some(node);
            if target == start {
                break 'search;
            }
            open.push_back(target);
        }
    }
    let mut ids = vec![start];
    let mut at = came_from.get(start).copied().flatten();
    while let Some(node) = at {
        ids.push(node);
        at = if node == start {
            None
        } else {
            came_from.get(node).copied().flatten()
        };
    }
    ids.reverse();
    let mut names: Vec<String> = ids.iter().map(|id| name(graph, world, *id)).collect();
    names.dedup();
    names
}

/// A node as people call it.
pub(crate) fn name(graph: &Graph, world: &World, id: NodeId) -> String {
    match graph.node(id) {
        Some(Node::Resource(member)) => world
            .get(*member)
            .map(|member| member.reference.to_string())
            .unwrap_or_default(),
        Some(Node::Anchor(anchor)) => anchor.name.clone(),
        None => String::new(),
    }
}
