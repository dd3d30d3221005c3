//! What a node is, for filters, policies and records: collectives, facts, classes and the state of subsystems; and its machine.

use std::path::Path;
use std::sync::Arc;

use muster_filter::state::{MapField, MapFields, NodeFacts};
use muster_system::System;
use muster_wire::identity::{Identity, SubjectName};

use super::classes::ClassStore;
use super::facts::{FactSources, FactStore};
use super::node_state::NodeStateStore;

#[derive(Debug)]
pub struct NodeDescription {
    /// The first is the main one.
    pub collectives: Vec<SubjectName>,
    pub facts: FactStore,
    pub classes: ClassStore,
    pub state: NodeStateStore,
    pub system: Arc<dyn System>,
}

impl NodeDescription {
    /// A node without files: these facts and classes do not change, and the state is unknown.
    pub fn fixed(
        identity: &Identity,
        collectives: Vec<SubjectName>,
        facts: Arc<NodeFacts>,
        classes: Arc<[String]>,
        system: Arc<dyn System>,
    ) -> Self {
        let nonexistent = Path::new("/nonexistent");
        let sources = FactSources::new(identity.clone(), nonexistent.to_owned());
        Self {
            collectives,
            facts: FactStore::with_facts(sources, facts),
            classes: ClassStore::with_classes(nonexistent.to_owned(), classes),
            state: NodeStateStore::default(),
            system,
        }
    }

    /// The current maps, for the node's own filters and for its record; `None` while one is unknown. A map is the same value until it is replaced.
    pub fn current_maps(&self) -> MapFields<Option<Arc<NodeFacts>>> {
        MapFields::new(|field| match field {
            MapField::Facts => Some(self.facts.current()),
            MapField::State => self.state.current(),
        })
    }
}
