//! Inventory documents that describe every node of a fleet, so that all filters are evaluated locally, without requests to nodes.
//!
//! The layout is Choria's published one (`inventory_file.json` of its discovery schemas, version 1), as JSON or YAML:
//!
//! ```yaml
//! $schema: https://choria.io/schemas/choria/discovery/v1/inventory_file.json
//! groups:
//!   - name: web
//!     filter: {classes: [nginx], facts: [country=uk], compound: not environment=production}
//! nodes:
//!   - name: web1.acme.net
//!     collectives: [muster]
//!     facts: {country: uk}
//!     classes: [nginx]
//!     agents: [rpcutil]
//! ```
//!
//! A group's texts are parsed like `-A`, `-C`, `-F`, `-I` and `-S`. An agent may also be an object with a `name`, as in earlier versions of the
//! layout.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use muster_filter::state::{MapField, NodeFacts, NodeView};
use muster_filter::{DeclaredSources, FilterError, NodeFilter};
use muster_wire::identity::{Identity, NameError};
use serde::de::{DeserializeOwned, Deserializer};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::document::{self, DiscoveryDocumentError, DiscoveryFileFormat};
use super::query::DiscoveryQuery;

/// Identifier of the layout.
pub const INVENTORY_SCHEMA: &str =
    "https://choria.io/schemas/choria/discovery/v1/inventory_file.json";

/// Identifier of the layout with the key `state` of nodes, which Choria's does not permit.
pub const STATE_INVENTORY_SCHEMA: &str = "muster.inventory_file.v1";

/// Maximum size of a document in bytes; ten thousand nodes with all their facts take about 200 MB.
pub const MAX_INVENTORY_BYTES: u64 = 1024 * 1024 * 1024;

/// A parsed inventory.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FleetInventory {
    /// [`INVENTORY_SCHEMA`] or [`STATE_INVENTORY_SCHEMA`].
    #[serde(rename = "$schema")]
    schema: String,
    /// Named filters.
    #[serde(default, deserialize_with = "null_as_default")]
    pub groups: Vec<InventoryGroup>,
    /// The nodes.
    #[serde(default, deserialize_with = "null_as_default")]
    pub nodes: Vec<InventoryNode>,
}

/// A named filter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InventoryGroup {
    /// The name, for `-I group:NAME`.
    pub name: String,
    /// The nodes of the group; all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<InventoryGroupFilter>,
}

/// The filter of a group, in text form.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct InventoryGroupFilter {
    /// Agents, as `-A`.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
    /// Classes, as `-C`.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<String>,
    /// Facts, as `-F`.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<String>,
    /// Identities, as `-I`.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub identities: Vec<String>,
    /// Compound expression, as `-S`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compound: Option<String>,
}

/// One node, as it described itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InventoryNode {
    /// Its identity.
    pub name: String,
    /// Its collectives; unknown when empty.
    #[serde(default, deserialize_with = "null_as_default")]
    pub collectives: Vec<String>,
    /// Its facts.
    #[serde(default, deserialize_with = "null_as_default")]
    pub facts: NodeFacts,
    /// Its classes.
    #[serde(default, deserialize_with = "null_as_default")]
    pub classes: Vec<String>,
    /// Its agents.
    #[serde(default, deserialize_with = "agent_names")]
    pub agents: Vec<String>,
    /// What its subsystems report; unknown when absent. The published layout has no such key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<NodeFacts>,
}

/// A result of reading an inventory.
pub(super) type Result<T, E = InventoryError> = std::result::Result<T, E>;

/// Why an inventory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InventoryError {
    /// The file cannot be read.
    #[error("it cannot be read")]
    Read(#[from] io::Error),
    /// More bytes than the limit.
    #[error("it is longer than {MAX_INVENTORY_BYTES} bytes")]
    TooLong,
    /// Not JSON or YAML of this layout.
    #[error("it is not an inventory: {0}")]
    Layout(#[source] DiscoveryDocumentError),
    /// Another layout identifier.
    #[error("its `$schema` is {0:?}; it must be {INVENTORY_SCHEMA:?}")]
    Schema(String),
    /// A node with an invalid name.
    #[error("node {entry}: {error}")]
    Name {
        /// Position of the node, from 1.
        entry: usize,
        /// Why the name is invalid.
        error: NameError,
    },
    /// An unknown group.
    #[error("it has no group {name:?}; it has {}", join_names(known))]
    NoGroup {
        /// The requested group.
        name: String,
        /// The groups in the document.
        known: Vec<String>,
    },
    /// A group whose filter is invalid.
    #[error("the filter of group {name:?} cannot be used: {source}")]
    Group {
        /// The group.
        name: String,
        /// The error and its position.
        source: FilterError,
    },
}

fn join_names(names: &[String]) -> String {
    match names {
        [] => "none".to_owned(),
        names => names.join(", "),
    }
}

impl FleetInventory {
    /// Creates a document without nodes.
    pub fn new(groups: Vec<InventoryGroup>) -> Self {
        Self { schema: INVENTORY_SCHEMA.to_owned(), groups, nodes: Vec::new() }
    }

    fn has_known_schema(&self) -> bool {
        [INVENTORY_SCHEMA, STATE_INVENTORY_SCHEMA].contains(&self.schema.as_str())
    }

    /// Reads an inventory file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = document::read_bounded_file(path, MAX_INVENTORY_BYTES)?
            .ok_or(InventoryError::TooLong)?;
        Self::parse(&text, DiscoveryFileFormat::from_file_name(path))
    }

    /// Parses an inventory.
    pub fn parse(text: &str, form: Option<DiscoveryFileFormat>) -> Result<Self> {
        let inventory: Self = decode_document(text, form)?;
        if !inventory.has_known_schema() {
            return Err(InventoryError::Schema(inventory.schema));
        }
        Ok(inventory)
    }

    /// Returns the nodes that match the query.
    pub fn find_nodes(&self, query: &DiscoveryQuery) -> Result<BTreeSet<Identity>> {
        let selector = InventorySelector::new(self, query)?;
        let mut found = BTreeSet::new();
        for (index, node) in self.nodes.iter().enumerate() {
            let candidate = InventoryNodeView::new(index, node)?;
            let view = candidate.view();
            if selector.admits(node, &view) && query.filter.matches_except_identity(&view) {
                found.insert(candidate.identity);
            }
        }
        Ok(found)
    }

    /// Returns the filter of a group.
    pub fn group_filter(&self, name: &str) -> Result<NodeFilter> {
        let group = self.groups.iter().find(|group| group.name == name);
        let group = group.ok_or_else(|| InventoryError::NoGroup {
            name: name.to_owned(),
            known: self.groups.iter().map(|group| group.name.clone()).collect(),
        })?;
        group
            .parse_filter()
            .map_err(|source| InventoryError::Group { name: name.to_owned(), source })
    }
}

/// Selects the nodes to evaluate: those of the collective that are named, or are in one of the groups.
struct InventorySelector<'a> {
    query: &'a DiscoveryQuery,
    groups: Vec<NodeFilter>,
}

impl<'a> InventorySelector<'a> {
    fn new(inventory: &FleetInventory, query: &'a DiscoveryQuery) -> Result<Self> {
        let groups = query.groups.iter().map(|name| inventory.group_filter(name));
        Ok(Self { query, groups: groups.collect::<Result<_>>()? })
    }

    /// Identities and groups are alternatives (OR); all other conditions must hold (AND).
    fn admits(&self, node: &InventoryNode, view: &NodeView<'_>) -> bool {
        let identities = self.query.filter.identities();
        let unrestricted = identities.is_empty() && self.groups.is_empty();
        let named = || identities.iter().any(|pattern| pattern.matches(view.identity()));
        let grouped = || self.groups.iter().any(|group| group.matches(view));
        node.is_in(self.query.collective.as_ref().map(AsRef::as_ref))
            && (unrestricted || named() || grouped())
    }
}

/// Adapter that presents an inventory node to filters.
struct InventoryNodeView<'a> {
    identity: Identity,
    node: &'a InventoryNode,
    classes: Vec<String>,
}

impl<'a> InventoryNodeView<'a> {
    /// Creates the view of the node at this index of the document, from 0.
    fn new(index: usize, node: &'a InventoryNode) -> Result<Self> {
        let identity = Identity::parse(&node.name)
            .map_err(|error| InventoryError::Name { entry: index + 1, error })?;
        // Filters compare classes in lower case.
        let classes = node.classes.iter().map(|name| name.to_lowercase()).collect();
        Ok(Self { identity, node, classes })
    }

    fn view(&self) -> NodeView<'_> {
        NodeView::new(self.identity.as_str(), &self.node.facts)
            .with_classes(Some(&self.classes))
            .with_agents(&self.node.agents)
            .with_collectives(&self.node.collectives)
            .with_map(MapField::State, self.node.state.as_ref())
    }
}

impl InventoryGroup {
    /// Parses the filter.
    fn parse_filter(&self) -> Result<NodeFilter, FilterError> {
        type With = fn(NodeFilter, &str) -> Result<NodeFilter, FilterError>;
        let mut filter = NodeFilter::default();
        let Some(texts) = &self.filter else {
            return Ok(filter);
        };
        let kinds: [(&[String], With); 4] = [
            (&texts.facts, NodeFilter::with_fact),
            (&texts.classes, NodeFilter::with_class),
            (&texts.agents, NodeFilter::with_agent),
            (&texts.identities, NodeFilter::with_identity),
        ];
        for (texts, with) in kinds {
            for text in texts {
                filter = with(filter, text)?;
            }
        }
        match texts.compound.as_deref().filter(|text| !text.trim().is_empty()) {
            Some(text) => filter.with_declared_select(text, &DeclaredSources::default()),
            None => Ok(filter),
        }
    }
}

impl InventoryNode {
    /// A node without recorded collectives may be in any collective.
    fn is_in(&self, collective: Option<&str>) -> bool {
        collective.is_none_or(|required| {
            self.collectives.is_empty() || self.collectives.iter().any(|name| name == required)
        })
    }
}

/// Returns warnings about a readable document, one line each; empty when there are none.
pub fn find_problems(text: &str, form: Option<DiscoveryFileFormat>) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    let value: Value = decode_document(text, form)?;
    let parsed: Result<FleetInventory, _> = serde_ignored::deserialize(value, |path| {
        problems.push(format!("unknown key `{}` is ignored", path.to_string().replace(".?", "")));
    });
    let inventory = parsed.map_err(|error| InventoryError::Layout(error.into()))?;
    if !inventory.has_known_schema() {
        problems.push(InventoryError::Schema(inventory.schema.clone()).to_string());
    }
    let mut seen = BTreeSet::new();
    for group in &inventory.groups {
        if !seen.insert(group.name.as_str()) {
            let name = &group.name;
            problems.push(format!("group {name:?} is defined twice; the first definition is used"));
        }
        if let Err(error) = group.parse_filter() {
            problems.push(format!("group {:?}: {error}", group.name));
        }
    }
    let mut seen = BTreeSet::new();
    for (index, node) in inventory.nodes.iter().enumerate() {
        let entry = index + 1;
        match Identity::parse(&node.name) {
            Err(error) => problems.push(InventoryError::Name { entry, error }.to_string()),
            Ok(identity) if !seen.insert(identity.clone()) => {
                problems.push(format!("node {entry}: {identity} is listed twice"));
            }
            Ok(_) => {}
        }
    }
    Ok(problems)
}

fn decode_document<T: DeserializeOwned>(
    text: &str,
    form: Option<DiscoveryFileFormat>,
) -> Result<T> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let is_json = match form {
        Some(DiscoveryFileFormat::Json) => true,
        Some(DiscoveryFileFormat::Yaml) => false,
        _ => text.trim_start().starts_with('{'),
    };
    let decoded = if is_json {
        serde_json::from_str(text).map_err(DiscoveryDocumentError::from)
    } else {
        document::parse_yaml(text)
    };
    decoded.map_err(InventoryError::Layout)
}

/// Treats `null` like an absent value.
fn null_as_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    source: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(source)?.unwrap_or_default())
}

/// Accepts names, or objects with a `name`.
fn agent_names<'de, D: Deserializer<'de>>(source: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "an agent must be a name, or an object with a `name`")]
    enum InventoryAgentEntry {
        Plain(String),
        Object { name: String },
    }
    let entries: Vec<InventoryAgentEntry> = null_as_default(source)?;
    let name = |(InventoryAgentEntry::Plain(name) | InventoryAgentEntry::Object { name })| name;
    Ok(entries.into_iter().map(name).collect())
}

mod evaluate;

pub use evaluate::NodeEvaluation;

#[cfg(test)]
mod tests;
