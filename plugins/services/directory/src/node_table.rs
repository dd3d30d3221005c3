//! All nodes of the fleet, as they describe themselves, and the indexes that narrow a query.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use muster_filter::state::{MapField, MapFields, NodeFacts, NodeView};
use muster_filter::{NecessaryCondition, ReferencedFacts};
use muster_wire::Millis;
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::node_record::{NodeContent, NodeRecord};
use muster_wire::token::VerifiedUser;
use roaring::RoaringBitmap;
use serde_json::Value;

use crate::fact_values::{FactValues, StoredFacts};
use crate::liveness::NodeLiveness;
use crate::memory::{MemoryLimit, node_bytes};
use crate::name_lists::{NameIndex, SharedLists};
use crate::node_barrier::{NodeBarrier, read_barriers, read_run_end};
use crate::value_path::ValuePath;

mod bounded_store;

#[derive(Debug)]
pub struct StoredNode {
    pub identity: Identity,
    /// Version of the daemon.
    pub version: Arc<str>,
    /// Classes, lower-case.
    pub classes: Arc<[String]>,
    pub classes_known: bool,
    pub agents: Arc<[String]>,
    /// Versions of agents, in the order of their names.
    pub agent_versions: Arc<[String]>,
    /// Collectives, the main one first.
    pub collectives: Arc<[String]>,
    pub digest: Box<str>,
    /// When the node made the record, by its clock.
    pub record_time: Millis,
    /// The record's revision in the bucket.
    pub revision: u64,
    pub liveness: NodeLiveness,
    /// The user who signed the record, to drop it when that user is revoked. Shared with the cache of verified tokens.
    pub sender: Option<Arc<VerifiedUser>>,
    /// When its last run of Puppet ended, by its clock; 0 if it never ran.
    pub(crate) run_end: Millis,
    pub(crate) barriers: Box<[NodeBarrier]>,
    number: u32,
    /// `None` while a map is unknown.
    maps: MapFields<Option<StoredFacts>>,
}

/// The values that a filter reads.
pub(crate) type WantedValues = MapFields<ReferencedFacts>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StaleRecord {
    #[error("it is older than the known one")]
    Older,
}

#[derive(Debug, Default)]
pub struct NodeTable {
    nodes: Vec<Option<StoredNode>>,
    free: Vec<u32>,
    by_name: BTreeMap<Identity, u32>,
    maps: MapFields<FactValues>,
    classes: NameIndex,
    agents: NameIndex,
    collectives: NameIndex,
    lists: SharedLists,
    versions: HashSet<Arc<str>>,
    /// Why the newest records of some nodes are refused.
    problems: BTreeMap<Identity, Box<str>>,
    memory_limit: MemoryLimit,
    /// Memory of the nodes themselves.
    node_bytes: usize,
}

impl NodeTable {
    /// An empty index that takes about this much memory, and never twice as much.
    pub fn with_memory_mib(mib: u32) -> Self {
        Self { memory_limit: MemoryLimit::from_mib(mib), ..Self::default() }
    }

    /// Adds a node, or replaces what is known of it.
    fn replace(
        &mut self,
        record: &NodeRecord,
        content: NodeContent,
        revision: u64,
    ) -> Result<&mut StoredNode, StaleRecord> {
        let interval = Duration::from_secs(content.heartbeat_seconds.max(1).into());
        let liveness = self.take(&record.sender).unwrap_or_else(|| NodeLiveness::new(interval));
        let number = self.free.pop().unwrap_or_else(|| {
            self.nodes.push(None);
            u32::try_from(self.nodes.len() - 1).unwrap_or(u32::MAX)
        });
        let mut node = self.build_node(number, record, content, liveness);
        node.revision = revision;
        node.liveness.set_interval(interval);
        self.classes.insert(&node.classes, number);
        self.agents.insert(&node.agents, number);
        self.collectives.insert(&node.collectives, number);
        self.node_bytes += node_bytes(&node.identity);
        self.by_name.insert(node.identity.clone(), number);
        let place = self.nodes.get_mut(number as usize).ok_or(StaleRecord::Older)?;
        Ok(place.insert(node))
    }

    /// Notes why the content of a node's record is refused, and keeps what is known of the node. Of an unknown node, `head` is known then.
    pub fn store_problem(
        &mut self,
        record: &NodeRecord,
        head: NodeContent,
        revision: u64,
        now: Millis,
        problem: String,
    ) -> Result<&mut StoredNode, StaleRecord> {
        self.check_time(record, now)?;
        if self.get(&record.sender).is_none() {
            self.store(record, head, revision, now)?;
        }
        self.problems.insert(record.sender.clone(), problem.into());
        self.get_mut(&record.sender).ok_or(StaleRecord::Older)
    }

    /// Why the newest record of a node is refused; `None` if it is not.
    pub fn problem_of(&self, node: &Identity) -> Option<&str> {
        self.problems.get(node).map(|problem| &**problem)
    }

    /// Number of nodes whose newest record is refused.
    pub fn problem_count(&self) -> usize {
        self.problems.len()
    }

    fn check_time(&self, record: &NodeRecord, now: Millis) -> Result<(), StaleRecord> {
        let known = self.get(&record.sender);
        if known.is_some_and(|known| record.time < known.record_time && known.record_time <= now) {
            return Err(StaleRecord::Older);
        }
        Ok(())
    }

    pub fn remove(&mut self, name: &Identity) -> bool {
        self.take(name).is_some()
    }

    pub fn get(&self, name: &Identity) -> Option<&StoredNode> {
        self.by_number(*self.by_name.get(name)?)
    }

    /// The node with this name, to note that it is alive.
    pub(crate) fn get_mut(&mut self, name: &Identity) -> Option<&mut StoredNode> {
        self.nodes.get_mut(*self.by_name.get(name)? as usize)?.as_mut()
    }

    /// All nodes, by name.
    pub fn iter(&self) -> impl Iterator<Item = &StoredNode> {
        self.by_name.values().filter_map(|number| self.by_number(*number))
    }

    /// All nodes, in no order.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut StoredNode> {
        self.nodes.iter_mut().flatten()
    }

    /// Estimated memory of all records, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let names = [&self.classes, &self.agents, &self.collectives].map(NameIndex::memory_bytes);
        let maps: usize = self.maps.iter().map(|(_, values)| values.memory_bytes()).sum();
        self.node_bytes + maps + self.lists.memory_bytes() + names.iter().sum::<usize>()
    }

    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    pub fn fact_values(&self) -> &FactValues {
        self.maps.get(MapField::Facts)
    }

    /// A map of a node; `None` while it is unknown.
    pub fn map_of(&self, node: &StoredNode, field: MapField) -> Option<NodeFacts> {
        self.wanted_map(node, field, &ReferencedFacts::All)
    }

    fn wanted_map(
        &self,
        node: &StoredNode,
        field: MapField,
        wanted: &ReferencedFacts,
    ) -> Option<NodeFacts> {
        let stored = node.maps.get(field).as_deref()?;
        Some(self.maps.get(field).facts_of(stored, wanted))
    }

    /// The values of a node at these paths; those that it does not have are left out.
    pub(crate) fn values_at(
        &self,
        node: &StoredNode,
        paths: &[ValuePath],
    ) -> BTreeMap<String, Value> {
        let maps = MapFields::new(|field| {
            let paths = paths.iter().filter(|path| path.field == field).map(|path| &path.path);
            self.wanted_map(node, field, &ReferencedFacts::of_paths(paths))
        });
        let value = |path: &ValuePath| {
            let value = maps.get(path.field).as_ref()?.get_path(&path.path)?;
            Some((path.to_string(), value.clone()))
        };
        paths.iter().filter_map(value).collect()
    }

    /// Calls a function with the view of a node that has those values that a filter reads.
    pub(crate) fn with_view<T>(
        &self,
        node: &StoredNode,
        wanted: &WantedValues,
        evaluate: impl FnOnce(&NodeView<'_>) -> T,
    ) -> T {
        let maps = MapFields::new(|field| self.wanted_map(node, field, wanted.get(field)));
        let no_facts = NodeFacts::default();
        evaluate(
            &NodeView::new(node.identity.as_str(), &no_facts)
                .with_classes(node.classes_known.then_some(&*node.classes))
                .with_agents(&node.agents)
                .with_collectives(&node.collectives)
                .with_maps(&maps),
        )
    }

    /// The nodes for which a condition may hold.
    pub(crate) fn nodes_for(&self, condition: &NecessaryCondition) -> RoaringBitmap {
        match condition {
            NecessaryCondition::Class(names) => self.classes.nodes_with_any(names),
            NecessaryCondition::Agent(names) => self.agents.nodes_with_any(names),
            NecessaryCondition::Collective(names) => self.collectives.nodes_with_any(names),
            NecessaryCondition::Identity(names) => {
                let parsed = names.iter().filter_map(|name| Identity::parse(name).ok());
                parsed.filter_map(|name| self.by_name.get(&name).copied()).collect()
            }
            NecessaryCondition::Value(field, path, keys) => {
                self.maps.get(*field).nodes_with(path, keys)
            }
        }
    }

    /// How many of these nodes have which value at a path, and how many have none.
    pub fn facets(&self, path: &ValuePath, nodes: &[&StoredNode]) -> (Vec<(Value, u64)>, u64) {
        let numbers = nodes.iter().map(|node| node.number).collect();
        self.maps.get(path.field).facets(&path.path, &numbers)
    }

    pub(crate) fn by_number(&self, number: u32) -> Option<&StoredNode> {
        self.nodes.get(number as usize)?.as_ref()
    }

    /// Removes a node and all that only it has; returns when it was seen.
    fn take(&mut self, name: &Identity) -> Option<NodeLiveness> {
        self.problems.remove(name);
        let number = self.by_name.remove(name)?;
        let node = self.nodes.get_mut(number as usize)?.take()?;
        for (field, stored) in node.maps.iter() {
            self.maps.get_mut(field).remove(number, stored.as_deref().unwrap_or_default());
        }
        self.classes.remove(&node.classes, number);
        self.agents.remove(&node.agents, number);
        self.collectives.remove(&node.collectives, number);
        self.node_bytes -= node_bytes(&node.identity);
        self.free.push(number);
        let StoredNode { classes, agents, agent_versions, collectives, version, liveness, .. } =
            node;
        self.lists.release(&[classes, agents, agent_versions, collectives]);
        if Arc::strong_count(&version) == 2 {
            self.versions.remove(&version);
        }
        Some(liveness)
    }

    fn build_node(
        &mut self,
        number: u32,
        record: &NodeRecord,
        content: NodeContent,
        liveness: NodeLiveness,
    ) -> StoredNode {
        let maps = MapFields::new(|field| {
            Some(self.maps.get_mut(field).insert(number, content.map(field)?))
        });
        let run_end = read_run_end(content.map(MapField::State));
        let barriers = read_barriers(content.map(MapField::State)).into();
        let (agents, agent_versions): (Vec<_>, Vec<_>) = content.agents.into_iter().unzip();
        let collectives = content.collectives.iter().map(SubjectName::to_string).collect();
        let version = Arc::<str>::from(content.version);
        let version = self.versions.get(&version).cloned().unwrap_or_else(|| {
            self.versions.insert(Arc::clone(&version));
            version
        });
        StoredNode {
            identity: record.sender.clone(),
            version,
            classes_known: content.classes.is_some(),
            classes: self.lists.share(content.classes.unwrap_or_default()),
            agents: self.lists.share(agents),
            agent_versions: self.lists.share(agent_versions),
            collectives: self.lists.share(collectives),
            digest: record.digest.as_str().into(),
            record_time: record.time,
            revision: 0,
            liveness,
            sender: None,
            run_end,
            barriers,
            number,
            maps,
        }
    }
}
