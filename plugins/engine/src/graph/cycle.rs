//! Detects dependency cycles and formats them for messages.

use std::collections::{BTreeSet, VecDeque};

use super::{DependencyGraph, GraphNode, GraphNodeId};
use crate::resolved_catalog::ResolvedCatalog;

/// All strongly connected components that form a cycle, each in node order (Tarjan's algorithm, iterative).
pub(crate) fn find_cycles(graph: &DependencyGraph) -> Vec<Vec<GraphNodeId>> {
    let mut search = CycleSearch {
        index: vec![None; graph.len()],
        low: vec![0; graph.len()],
        on_stack: vec![false; graph.len()],
        stack: Vec::new(),
        next: 0,
        found: Vec::new(),
    };
    for root in 0..graph.len() {
        if search.index.get(root).is_some_and(Option::is_none) {
            search.search_from(graph, root);
        }
    }
    search.found.retain(|group| match group.as_slice() {
        [one] => graph.has_edge(*one, *one),
        _ => true,
    });
    search.found
}

struct CycleSearch {
    index: Vec<Option<usize>>,
    low: Vec<usize>,
    on_stack: Vec<bool>,
    stack: Vec<GraphNodeId>,
    next: usize,
    found: Vec<Vec<GraphNodeId>>,
}

impl CycleSearch {
    fn enter_node(&mut self, node: GraphNodeId) {
        if let (Some(index), Some(low), Some(on_stack)) =
            (self.index.get_mut(node), self.low.get_mut(node), self.on_stack.get_mut(node))
        {
            (*index, *low, *on_stack) = (Some(self.next), self.next, true);
        }
        self.next += 1;
        self.stack.push(node);
    }

    fn lower_link(&mut self, node: GraphNodeId, to: usize) {
        if let Some(low) = self.low.get_mut(node) {
            *low = (*low).min(to);
        }
    }

    fn search_from(&mut self, graph: &DependencyGraph, root: GraphNodeId) {
        self.enter_node(root);
        let mut path: Vec<(GraphNodeId, Vec<GraphNodeId>)> =
            vec![(root, edge_targets(graph, root))];
        while let Some((node, targets)) = path.last_mut() {
            let node = *node;
            let Some(target) = targets.pop() else {
                path.pop();
                let low = self.low.get(node).copied().unwrap_or_default();
                if let Some((parent, _)) = path.last() {
                    self.lower_link(*parent, low);
                }
                self.close_component(node, low);
                continue;
            };
            match self.index.get(target).copied().flatten() {
                None => {
                    self.enter_node(target);
                    path.push((target, edge_targets(graph, target)));
                }
                Some(index) if self.on_stack.get(target) == Some(&true) => {
                    self.lower_link(node, index);
                }
                Some(_) => {}
            }
        }
    }

    /// If the node reaches nothing older, the stack above it is one component.
    fn close_component(&mut self, node: GraphNodeId, low: usize) {
        if self.index.get(node).copied().flatten() != Some(low) {
            return;
        }
        let mut component = Vec::new();
        while let Some(member) = self.stack.pop() {
            if let Some(on_stack) = self.on_stack.get_mut(member) {
                *on_stack = false;
            }
            component.push(member);
            if member == node {
                break;
            }
        }
        component.sort_unstable();
        self.found.push(component);
    }
}

fn edge_targets(graph: &DependencyGraph, node: GraphNodeId) -> Vec<GraphNodeId> {
    graph.outgoing_edges(node).map(|(target, _)| target).collect()
}

/// A shortest cycle as names: `File[/a] => File[/b] => File[/a]`. Adjacent equal names (begin and end of a class) appear once.
pub(crate) fn shortest_cycle_path(
    graph: &DependencyGraph,
    catalog: &ResolvedCatalog,
    group: &[GraphNodeId],
) -> Vec<String> {
    let members: BTreeSet<GraphNodeId> = group.iter().copied().collect();
    // Start at a resource if there is one, because its name is more informative.
    let is_resource =
        |id: &&GraphNodeId| matches!(graph.get_node(**id), Some(GraphNode::Resource(_)));
    let Some(&start) = group.iter().find(is_resource).or(group.first()) else { return Vec::new() };
    let mut came_from = vec![None; graph.len()];
    let mut queue = VecDeque::from([start]);
    'search: while let Some(node) = queue.pop_front() {
        for (target, _) in graph.outgoing_edges(node).filter(|(to, _)| members.contains(to)) {
            let Some(entry) = came_from.get_mut(target).filter(|entry| entry.is_none()) else {
                continue;
            };
            *entry = Some(node);
            if target == start {
                break 'search;
            }
            queue.push_back(target);
        }
    }
    let mut ids = vec![start];
    let mut current = came_from.get(start).copied().flatten();
    while let Some(node) = current {
        ids.push(node);
        current = if node == start { None } else { came_from.get(node).copied().flatten() };
    }
    ids.reverse();
    let mut names: Vec<String> = ids.iter().map(|id| node_name(graph, catalog, *id)).collect();
    names.dedup();
    names
}

pub(crate) fn node_name(
    graph: &DependencyGraph,
    catalog: &ResolvedCatalog,
    id: GraphNodeId,
) -> String {
    match graph.get_node(id) {
        Some(GraphNode::Resource(member)) => {
            let member = catalog.get_member(*member);
            member.map(|member| member.reference.to_string()).unwrap_or_default()
        }
        Some(GraphNode::Anchor(anchor)) => anchor.name.clone(),
        None => String::new(),
    }
}
