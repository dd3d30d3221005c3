//! Adds generated resources: entries below a directory, resources to purge.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use super::CatalogRun;
use crate::catalog::ResourceReference;
use crate::graph::{ContainerAnchor, GraphNode, GraphNodeId};
use crate::report::RunLogLevel;
use crate::resolved_catalog::{MemberId, MemberRelation};
use crate::resource::Resource;
use crate::resource_type::GenerationPhase;

impl CatalogRun<'_> {
    /// Generation before any evaluation; generated resources may generate more.
    pub(super) fn generate_before_run(&mut self) {
        let mut pending: Vec<MemberId> = self.resolved.in_order().map(|(id, _)| id).collect();
        pending.reverse();
        while let Some(member) = pending.pop() {
            let Some(resource) = self.resolved.resource_of(member).cloned() else { continue };
            let phase = self.generation_phase(&resource);
            let first = phase == GenerationPhase::BeforeTheRunAndFirst;
            if !first && phase != GenerationPhase::BeforeTheRun {
                continue;
            }
            let Some(generated) = self.generate_from(member, &resource, "generate") else {
                continue;
            };
            let generator = resource.reference();
            for resource in generated {
                if let Some(id) = self.resolved.add_generated(member, resource, first) {
                    if let Ok(other) = generator.parse() {
                        let relation =
                            MemberRelation { other, other_first: !first, refresh: false };
                        self.resolved.add_relation(id, relation);
                    }
                    pending.push(id);
                }
            }
        }
    }

    /// Generation right before a resource is evaluated. Generated resources come after it, and its dependents after all of them.
    pub(super) fn generate_with_resource(&mut self, node: GraphNodeId, member: MemberId) {
        let Some(resource) = self.resolved.resource_of(member).cloned() else { return };
        if self.generation_phase(&resource) != GenerationPhase::WithTheResource {
            return;
        }
        let Some(generated) = self.generate_from(member, &resource, "eval_generate") else {
            return;
        };
        let nodes = self.add_generated_nodes(node, member, generated);
        if nodes.is_empty() {
            return;
        }
        self.add_generated_edges(node, &resource, member, &nodes);
        self.progress.resize_with(self.built.graph.len(), Default::default);
        if let Some(traversal) = &mut self.traversal {
            traversal.recount_dependencies(&self.built.graph);
        }
    }

    fn generation_phase(&self, resource: &Resource) -> GenerationPhase {
        let resource_type = self.engine.type_of(resource);
        resource_type.map_or(GenerationPhase::Never, |known| known.generation_phase(resource))
    }

    fn generate_from(
        &mut self,
        member: MemberId,
        resource: &Resource,
        hook: &str,
    ) -> Option<Vec<Resource>> {
        let resource_type = self.engine.type_of(resource);
        let bound = self.cx.bind(resource);
        let generated =
            resource_type.and_then(|known| known.generate_resources(&bound, &self.resolved));
        for line in self.cx.log.take() {
            self.log_member_message(member, None, RunLogLevel::Notice, &line);
        }
        match generated {
            Ok(generated) if generated.is_empty() => None,
            Ok(generated) => Some(generated),
            Err(error) => {
                self.failed_to_generate = true;
                let reason = error.reason();
                let message =
                    format!("Failed to generate additional resources using '{hook}': {reason}");
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
        generated: Vec<Resource>,
    ) -> Vec<(String, GraphNodeId)> {
        let mut nodes = Vec::new();
        for resource in generated {
            let name = resource.name.clone();
            let reference = ResourceReference::new(&resource.type_name, &resource.title);
            let id = match self.resolved.add_generated(member, resource, false) {
                Some(id) => {
                    let priority = self.built.graph.priority_below(node);
                    let new = self.built.graph.add_node(GraphNode::Resource(id), priority);
                    self.built.nodes.insert(id, new);
                    Some(new)
                }
                None => self
                    .resolved
                    .find_member(&reference)
                    .and_then(|id| self.built.nodes.get(&id).copied()),
            };
            nodes.extend(id.map(|id| (name, id)));
        }
        nodes
    }

    fn add_generated_edges(
        &mut self,
        node: GraphNodeId,
        resource: &Resource,
        member: MemberId,
        nodes: &[(String, GraphNodeId)],
    ) {
        let graph = &mut self.built.graph;
        let tags = self.resolved.get_member(member).map(|details| details.tags.clone());
        let anchor =
            ContainerAnchor { name: resource.title.clone(), tags: tags.unwrap_or_default() };
        let priority = graph.priority_below(node);
        let end = graph.add_node(GraphNode::Anchor(anchor), priority);
        let except: BTreeSet<GraphNodeId> = nodes.iter().map(|(_, id)| *id).chain([end]).collect();
        graph.move_outgoing_edges(node, end, &except);
        for (_, id) in nodes {
            if !graph.has_edge(end, *id) {
                graph.add_edge(*id, end, true);
            }
        }
        graph.add_edge(node, end, true);
        let by_name: HashMap<&str, GraphNodeId> =
            nodes.iter().map(|(name, id)| (name.as_str(), *id)).collect();
        for (name, id) in nodes {
            let mut ancestors = Path::new(name).ancestors().skip(1);
            let parent = ancestors.find_map(|parent| by_name.get(parent.to_str()?).copied());
            let parent = parent.unwrap_or(node);
            if !graph.has_edge(*id, parent) {
                graph.add_edge(parent, *id, false);
            }
        }
    }
}
