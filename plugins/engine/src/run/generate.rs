//! What resources bring with them: what lies below a directory, what is to be purged.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use super::Run;
use crate::error::EngineError;
use crate::graph::{Anchor, Node, NodeId};
use crate::report::Level;
use crate::resource::Resource;
use crate::resource_type::Generates;
use crate::world::{MemberId, Relation};

impl Run<'_> {
    /// Before anything is evaluated, with what is brought bringing more in turn.
    pub(super) fn generate_before(&mut self) {
        let mut open: Vec<MemberId> = self.world.in_order().map(|(id, _)| id).collect();
        open.reverse();
        while let Some(member) = open.pop() {
            let Some(resource) = self.resource_of(member) else {
                continue;
            };
            let when = self.engine.generates(&resource);
            let first = when == Generates::BeforeTheRunAndFirst;
            if !first && when != Generates::BeforeTheRun {
                continue;
            }
            let Some(brought) = self.bring(member, &resource, "generate") else {
                continue;
            };
            let bringer = resource.reference();
            for resource in brought {
                if let Some(id) = self.world.add_generated(member, resource, first) {
                    if let Ok(other) = bringer.parse() {
                        let relation = Relation {
                            other,
                            other_first: !first,
                            refresh: false,
                        };
                        self.world.relate(id, relation);
                    }
                    open.push(id);
                }
            }
        }
    }

    /// Right before a resource is evaluated. What is brought comes after it, and what depended on it after all of them.
    pub(super) fn generate_with(&mut self, node: NodeId, member: MemberId) {
        let Some(resource) = self.resource_of(member) else {
            return;
        };
        if self.engine.generates(&resource) != Generates::WithTheResource {
            return;
        }
        let Some(brought) = self.bring(member, &resource, "eval_generate") else {
            return;
        };
        let made = self.admit(node, member, brought);
        if made.is_empty() {
            return;
        }
        self.contain_generated(node, &resource, member, &made);
        self.notes
            .resize_with(self.built.graph.len(), Default::default);
        if let Some(walk) = &mut self.walk {
            walk.recount(&self.built.graph);
        }
    }

    fn resource_of(&self, member: MemberId) -> Option<Resource> {
        self.world.get(member)?.resource.clone()
    }

    fn bring(
        &mut self,
        member: MemberId,
        resource: &Resource,
        call: &str,
    ) -> Option<Vec<Resource>> {
        let brought: Result<Vec<Resource>, EngineError> =
            self.engine.generate(&self.cx, resource, &self.world);
        for line in self.cx.log.take() {
            self.say_of(member, None, Level::Notice, &line);
        }
        match brought {
            Ok(brought) if brought.is_empty() => None,
            Ok(brought) => Some(brought),
            Err(error) => {
                self.failed_to_generate = true;
                let message = format!(
                    "Failed to generate additional resources using '{call}': {}",
                    error.reason()
                );
                self.say_of(member, None, Level::Err, &message);
                None
            }
        }
    }

    /// The nodes of what was brought; those that the catalog has already are what they are there.
    fn admit(
        &mut self,
        node: NodeId,
        member: MemberId,
        brought: Vec<Resource>,
    ) -> Vec<(String, NodeId)> {
        let mut made = Vec::new();
        for resource in brought {
            let name = resource.name.clone();
            let reference = crate::catalog::Reference::new(&resource.type_name, &resource.title);
            let id = match self.world.add_generated(member, resource, false) {
                Some(id) => {
                    let priority = self.built.graph.priority_below(node);
                    let new = self.built.graph.add(Node::Resource(id), priority);
                    self.built.nodes.insert(id, new);
                    Some(new)
                }
                None => self
                    .world
                    .place(&reference)
                    .and_then(|id| self.built.nodes.get(&id).copied()),
            };
            made.extend(id.map(|id| (name, id)));
        }
        made
    }

    fn contain_generated(
        &mut self,
        node: NodeId,
        resource: &Resource,
        member: MemberId,
        made: &[(String, NodeId)],
    ) {
        let graph = &mut self.built.graph;
        let anchor = Anchor {
            name: resource.title.clone(),
            tags: self
                .world
                .get(member)
                .map(|known| known.tags.clone())
                .unwrap_or_default(),
        };
        let priority = graph.priority_below(node);
        let end = graph.add(Node::Anchor(anchor), priority);
        let stay: BTreeSet<NodeId> = made.iter().map(|(_, id)| *id).chain([end]).collect();
        graph.move_outgoing(node, end, &stay);
        for (_, id) in made {
            if !graph.has_edge(end, *id) {
                graph.connect(*id, end, true);
            }
        }
        graph.connect(node, end, true);
        let by_name: HashMap<&str, NodeId> =
            made.iter().map(|(name, id)| (name.as_str(), *id)).collect();
        for (name, id) in made {
            let mut ancestors = Path::new(name).ancestors().skip(1);
            let above = ancestors.find_map(|above| by_name.get(above.to_str()?).copied());
            let above = above.unwrap_or(node);
            if !graph.has_edge(*id, above) {
                graph.connect(above, *id, false);
            }
        }
    }
}
