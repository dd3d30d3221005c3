//! Adds generated resources: entries below a directory, resources to purge.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use super::CatalogRun;
use crate::error::EngineError;
use crate::graph::{ContainerAnchor, GraphNode, GraphNodeId};
use crate::report::RunLogLevel;
use crate::resolved_catalog::{MemberId, MemberRelation};
use crate::resource::Resource;
use crate::resource_type::GenerationPhase;

impl CatalogRun<'_> {
    /// Generation before any evaluation; generated resources may generate more.
    pub(super) fn generate_before_run(&mut self) {
        let mut open: Vec<MemberId> = self.world.in_order().map(|(id, _)| id).collect();
        open.reverse();
        while let Some(member) = open.pop() {
            let Some(resource) = self.resource_of(member) else {
                continue;
            };
            let when = self.engine.generation_phase(&resource);
            let first = when == GenerationPhase::BeforeTheRunAndFirst;
            if !first && when != GenerationPhase::BeforeTheRun {
                continue;
            }
            let Some(brought) = self.generate_from(member, &resource, "generate") else {
                continue;
            };
            let bringer = resource.reference();
            for resource in brought {
                if let Some(id) = self.world.add_generated(member, resource, first) {
                    if let Ok(other) = bringer.parse() {
                        let relation = MemberRelation {
                            other,
                            other_first: !first,
                            refresh: false,
                        };
                        self.world.add_relation(id, relation);
                    }
                    open.push(id);
                }
            }
        }
    }

    /// Generation right before a resource is evaluated. Generated resources come after it, and its dependents after all of them.
    pub(super) fn generate_with_resource(&mut self, node: GraphNodeId, member: MemberId) {
        let Some(resource) = self.resource_of(member) else {
            return;
        };
        if self.engine.generation_phase(&resource) != GenerationPhase::WithTheResource {
            return;
        }
        let Some(brought) = self.generate_from(member, &resource, "eval_generate") else {
            return;
        };
        let made = self.add_generated_nodes(node, member, brought);
        if made.is_empty() {
            return;
        }
        self.add_generated_edges(node, &resource, member, &made);
        self.notes
            .resize_with(self.built.graph.len(), Default::default);
        if let Some(walk) = &mut self.walk {
            walk.recount_dependencies(&self.built.graph);
        }
    }

    fn resource_of(&self, member: MemberId) -> Option<Resource> {
        self.world.get_member(member)?.resource.clone()
    }

    fn generate_from(
        &mut self,
        member: MemberId,
        resource: &Resource,
        call: &str,
    ) -> Option<Vec<Resource>> {
        let brought: Result<Vec<Resource>, EngineError> =
            self.engine
                .generate_resources(&self.cx, resource, &self.world);
        for line in self.cx.log.take() {
            self.log_member_message(member, None, RunLogLevel::Notice, &line);
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
                self.log_member_message(member, None, RunLogLevel::Err, &message);
                None
            }
        }
    }

    /// Adds nodes for generated resources; those already in the catalog keep their definition.
    fn add_generated_nodes(
        &mut self,
        node: GraphNodeId,
        member: MemberId,
        brought: Vec<Resource>,
    ) -> Vec<(String, GraphNodeId)> {
        let mut made = Vec::new();
        for resource in brought {
            let name = resource.name.clone();
            let reference =
                crate::catalog::ResourceReference::new(&resource.type_name, &resource.title);
            let id = match self.world.add_generated(member, resource, false) {
                Some(id) => {
                    let priority = self.built.graph.priority_below(node);
                    let new = self.built.graph.add_node(GraphNode::Resource(id), priority);
                    self.built.nodes.insert(id, new);
                    Some(new)
                }
                None => self
                    .world
                    .find_member(&reference)
                    .and_then(|id| self.built.nodes.get(&id).copied()),
            };
            made.extend(id.map(|id| (name, id)));
        }
        made
    }

    fn add_generated_edges(
        &mut self,
        node: GraphNodeId,
        resource: &Resource,
        member: MemberId,
        made: &[(String, GraphNodeId)],
    ) {
        let graph = &mut self.built.graph;
        let anchor = ContainerAnchor {
            name: resource.title.clone(),
            tags: self
                .world
                .get_member(member)
                .map(|known| known.tags.clone())
                .unwrap_or_default(),
        };
        let priority = graph.priority_below(node);
        let end = graph.add_node(GraphNode::Anchor(anchor), priority);
        let stay: BTreeSet<GraphNodeId> = made.iter().map(|(_, id)| *id).chain([end]).collect();
        graph.move_outgoing_edges(node, end, &stay);
        for (_, id) in made {
            if !graph.has_edge(end, *id) {
                graph.add_edge(*id, end, true);
            }
        }
        graph.add_edge(node, end, true);
        let by_name: HashMap<&str, GraphNodeId> =
            made.iter().map(|(name, id)| (name.as_str(), *id)).collect();
        for (name, id) in made {
            let mut ancestors = Path::new(name).ancestors().skip(1);
            let above = ancestors.find_map(|above| by_name.get(above.to_str()?).copied());
            let above = above.unwrap_or(node);
            if !graph.has_edge(*id, above) {
                graph.add_edge(above, *id, false);
            }
        }
    }
}
