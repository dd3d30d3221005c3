//! From members to a graph: what was written, what types require by themselves, and containers as anchors.

use std::collections::{HashMap, HashSet};

use super::{Anchor, Graph, Node, NodeId};
use crate::engine::Engine;
use crate::world::{MemberId, World};

/// The graph, and the node of each member that is a resource.
#[derive(Debug, Default)]
pub(crate) struct Built {
    pub(crate) graph: Graph,
    pub(crate) nodes: HashMap<MemberId, NodeId>,
}

/// Where a member begins and ends: the same node for a resource, two anchors for a container.
#[derive(Debug, Clone, Copy)]
struct Ends {
    begin: NodeId,
    end: NodeId,
}

/// Builds it.
pub(crate) fn build(engine: &Engine, world: &World) -> Built {
    let mut built = Built::default();
    let ends = place(world, &mut built);
    relate(world, &ends, &mut built.graph);
    require_by_type(engine, world, &mut built);
    contain(world, &ends, &mut built.graph);
    built
}

fn place(world: &World, built: &mut Built) -> HashMap<MemberId, Ends> {
    let mut ends = HashMap::new();
    for (position, (id, member)) in (1..).zip(world.in_order()) {
        let priority = vec![position];
        let here = if member.resource.is_some() {
            let node = built.graph.add(Node::Resource(id), priority);
            built.nodes.insert(id, node);
            Ends {
                begin: node,
                end: node,
            }
        } else {
            let mut anchor = || {
                let anchor = Anchor {
                    name: member.reference.to_string(),
                    tags: member.tags.clone(),
                };
                built.graph.add(Node::Anchor(anchor), priority.clone())
            };
            Ends {
                begin: anchor(),
                end: anchor(),
            }
        };
        ends.insert(id, here);
    }
    ends
}

fn relate(world: &World, ends: &HashMap<MemberId, Ends>, graph: &mut Graph) {
    for (id, member) in world.in_order() {
        for relation in &member.relations {
            let other = world
                .place(&relation.other)
                .and_then(|other| ends.get(&other));
            let (Some(this), Some(other)) = (ends.get(&id), other) else {
                continue;
            };
            let (first, second) = if relation.other_first {
                (other, this)
            } else {
                (this, other)
            };
            graph.connect(first.end, second.begin, relation.refresh);
        }
    }
}

/// What is written goes before what types think of: no edge beside or against one that is there.
fn require_by_type(engine: &Engine, world: &World, built: &mut Built) {
    for (id, member) in world.in_order() {
        let Some(resource) = &member.resource else {
            continue;
        };
        let Some(&this) = built.nodes.get(&id) else {
            continue;
        };
        for (type_name, name) in engine.autorequires(resource, world) {
            let reference = crate::catalog::Reference::new(&type_name, &name);
            let first = world.place(&reference);
            let Some(&first) = first.and_then(|first| built.nodes.get(&first)) else {
                continue;
            };
            let related = built.graph.has_edge(first, this) || built.graph.has_edge(this, first);
            if !related && first != this {
                built.graph.connect(first, this, false);
            }
        }
    }
}

fn contain(world: &World, ends: &HashMap<MemberId, Ends>, graph: &mut Graph) {
    for (id, member) in world.in_order() {
        let (Some(this), Some(container)) = (ends.get(&id), member.container) else {
            continue;
        };
        if let Some(container) = ends.get(&container) {
            graph.connect(container.begin, this.begin, true);
            graph.connect(this.end, container.end, true);
        }
    }
    let holding: HashSet<MemberId> = world
        .in_order()
        .filter_map(|(_, member)| member.container)
        .collect();
    for (id, member) in world.in_order() {
        let Some(this) = ends.get(&id) else { continue };
        if member.resource.is_none() && !holding.contains(&id) {
            graph.connect(this.begin, this.end, false);
        }
    }
}
