//! Builds the graph from members: explicit relationships, autorequires, and containers as anchors.

use std::collections::{HashMap, HashSet};

use super::{ContainerAnchor, DependencyGraph, GraphNode, GraphNodeId};
use crate::catalog::ResourceReference;
use crate::engine::ResourceEngine;
use crate::resolved_catalog::{MemberId, ResolvedCatalog};

/// The graph, and the node of each resource member.
#[derive(Debug, Default)]
pub(crate) struct BuiltGraph {
    pub(crate) graph: DependencyGraph,
    pub(crate) nodes: HashMap<MemberId, GraphNodeId>,
}

/// Begin and end node of a member: the same node for a resource, two anchors for a container.
#[derive(Debug, Clone, Copy)]
struct MemberBounds {
    begin: GraphNodeId,
    end: GraphNodeId,
}

pub(crate) fn build_graph(engine: &ResourceEngine, catalog: &ResolvedCatalog) -> BuiltGraph {
    let mut built = BuiltGraph::default();
    let bounds = add_nodes(catalog, &mut built);
    add_relation_edges(catalog, &bounds, &mut built.graph);
    add_autorequire_edges(engine, catalog, &mut built);
    add_containment_edges(catalog, &bounds, &mut built.graph);
    built
}

fn add_nodes(catalog: &ResolvedCatalog, built: &mut BuiltGraph) -> HashMap<MemberId, MemberBounds> {
    let mut bounds = HashMap::new();
    for (position, (id, member)) in (1..).zip(catalog.in_order()) {
        let priority = vec![position];
        let member_bounds = if member.resource.is_some() {
            let node = built.graph.add_node(GraphNode::Resource(id), priority);
            built.nodes.insert(id, node);
            MemberBounds { begin: node, end: node }
        } else {
            let mut anchor = || {
                let anchor = ContainerAnchor {
                    name: member.reference.to_string(),
                    tags: member.tags.clone(),
                };
                built.graph.add_node(GraphNode::Anchor(anchor), priority.clone())
            };
            MemberBounds { begin: anchor(), end: anchor() }
        };
        bounds.insert(id, member_bounds);
    }
    bounds
}

fn add_relation_edges(
    catalog: &ResolvedCatalog,
    bounds: &HashMap<MemberId, MemberBounds>,
    graph: &mut DependencyGraph,
) {
    for (id, member) in catalog.in_order() {
        for relation in &member.relations {
            let other = catalog.find_member(&relation.other).and_then(|other| bounds.get(&other));
            let (Some(this), Some(other)) = (bounds.get(&id), other) else { continue };
            let (first, second) = if relation.other_first { (other, this) } else { (this, other) };
            graph.add_edge(first.end, second.begin, relation.refresh);
        }
    }
}

/// Explicit relationships take precedence: skips an automatic edge parallel or opposite to an existing one.
fn add_autorequire_edges(
    engine: &ResourceEngine,
    catalog: &ResolvedCatalog,
    built: &mut BuiltGraph,
) {
    for (id, member) in catalog.in_order() {
        let Some(resource) = &member.resource else { continue };
        let Some(&this) = built.nodes.get(&id) else { continue };
        let resource_type = engine.type_of(resource);
        let targets = resource_type.map(|known| known.autorequires(resource, catalog));
        for (type_name, name) in targets.unwrap_or_default() {
            let reference = ResourceReference::new(type_name, &name);
            let first = catalog.find_member(&reference);
            let Some(&first) = first.and_then(|first| built.nodes.get(&first)) else { continue };
            let related = built.graph.has_edge(first, this) || built.graph.has_edge(this, first);
            if !related && first != this {
                built.graph.add_edge(first, this, false);
            }
        }
    }
}

fn add_containment_edges(
    catalog: &ResolvedCatalog,
    bounds: &HashMap<MemberId, MemberBounds>,
    graph: &mut DependencyGraph,
) {
    for (id, member) in catalog.in_order() {
        let (Some(this), Some(container)) = (bounds.get(&id), member.container) else { continue };
        if let Some(container) = bounds.get(&container) {
            graph.add_edge(container.begin, this.begin, true);
            graph.add_edge(this.end, container.end, true);
        }
    }
    let non_empty: HashSet<MemberId> =
        catalog.in_order().filter_map(|(_, member)| member.container).collect();
    for (id, member) in catalog.in_order() {
        let Some(this) = bounds.get(&id) else { continue };
        if member.resource.is_none() && !non_empty.contains(&id) {
            graph.add_edge(this.begin, this.end, false);
        }
    }
}
