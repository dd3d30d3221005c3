//! Node state as values: facts, and the view of a node for filter evaluation.
//!
//! Nothing here reads a machine or a store. The daemon, the directory and the client each build these values from their own
//! data, so filters evaluate identically in all of them.

pub mod facts;
pub mod path;

use std::borrow::Borrow;

use serde::{Serialize, Serializer};

pub use facts::{NodeFacts, NodeFactsError};
pub use path::{FactPath, FactPathError};

/// A field of a node that is a map, which filters, the directory and lists of values address by dotted paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MapField {
    /// What the node knows about its machine.
    Facts,
    /// What its subsystems report, by their names (`puppet`).
    State,
}

/// The name, the bounds and the description of a field.
#[derive(Debug)]
pub struct MapFieldDefinition {
    /// The name in queries and in the record.
    pub name: &'static str,
    /// What the values are, in the reference.
    pub meaning: &'static str,
    /// What the names are called in errors.
    pub names_text: &'static str,
    /// Most names in a record.
    pub max_names: usize,
    /// Largest size in a record, in bytes as counted by [`NodeFacts::accounted_bytes`].
    pub max_bytes: usize,
}

impl MapField {
    /// All fields, the facts first. Queries, records and the reference list them in this order.
    pub const ALL: [Self; 2] = [Self::Facts, Self::State];

    /// The definition, which the wire format, the directory, `rpc node` and the reference follow.
    pub const fn definition(self) -> &'static MapFieldDefinition {
        match self {
            Self::Facts => &MapFieldDefinition {
                name: "facts",
                meaning: "the facts that the node publishes",
                names_text: "facts",
                max_names: 5000,
                max_bytes: 256 * 1024,
            },
            Self::State => &MapFieldDefinition {
                name: "state",
                meaning: "state of subsystems by name: `puppet`, `ledger`, `ssh`",
                names_text: "names in the state",
                max_names: 5000,
                max_bytes: 128 * 1024,
            },
        }
    }

    /// The name in queries and in the record.
    pub const fn as_str(self) -> &'static str {
        self.definition().name
    }

    /// The field with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|field| field.as_str() == name)
    }

    /// The fields that a record may lack: all but the facts.
    pub fn optional() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|field| *field != Self::Facts)
    }

    /// The table of all fields in Markdown, for the reference.
    pub fn reference_table() -> String {
        let head = "| map | most names | most KiB | meaning |\n|---|---|---|---|\n";
        let row = |field: Self| {
            let MapFieldDefinition { name, meaning, max_names, max_bytes, .. } = field.definition();
            format!("| `{name}` | {max_names} | {} | {meaning} |\n", max_bytes / 1024)
        };
        head.to_owned() + &Self::ALL.map(row).concat()
    }
}

impl Serialize for MapField {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Something for each field.
#[derive(Debug, Clone, Copy, Default)]
pub struct MapFields<T> {
    facts: T,
    state: T,
}

impl<T> MapFields<T> {
    /// Calls a function for each field.
    pub fn new(value_of: impl FnMut(MapField) -> T) -> Self {
        let [facts, state] = MapField::ALL.map(value_of);
        Self { facts, state }
    }

    /// That of one field.
    pub fn get(&self, field: MapField) -> &T {
        match field {
            MapField::Facts => &self.facts,
            MapField::State => &self.state,
        }
    }

    /// That of one field, to change it.
    pub fn get_mut(&mut self, field: MapField) -> &mut T {
        match field {
            MapField::Facts => &mut self.facts,
            MapField::State => &mut self.state,
        }
    }

    /// All, with their fields.
    pub fn iter(&self) -> impl Iterator<Item = (MapField, &T)> {
        MapField::ALL.into_iter().map(|field| (field, self.get(field)))
    }
}

/// A node as seen by filters. Borrowed, so that matching copies nothing.
#[derive(Debug, Clone, Copy)]
pub struct NodeView<'a> {
    /// Lower-case.
    pub(crate) identity: &'a str,
    pub(crate) facts: &'a NodeFacts,
    /// Lower-case.
    pub(crate) classes: &'a [String],
    pub(crate) classes_known: bool,
    pub(crate) agents: &'a [String],
    pub(crate) collectives: &'a [String],
    /// The maps other than the facts.
    optional_maps: MapFields<Option<&'a NodeFacts>>,
}

impl<'a> NodeView<'a> {
    /// A node without classes, agents and collectives, of which other maps than the facts are unknown. The name is lower-case.
    pub fn new(identity: &'a str, facts: &'a NodeFacts) -> Self {
        let (classes, agents, collectives) = (&[], &[], &[]);
        let (classes_known, optional_maps) = (true, MapFields::default());
        Self { identity, facts, classes, classes_known, agents, collectives, optional_maps }
    }

    /// The classes, lower-case (`mysql::master`); `None` if they were never read.
    #[must_use]
    pub fn with_classes(self, classes: Option<&'a [String]>) -> Self {
        Self { classes: classes.unwrap_or_default(), classes_known: classes.is_some(), ..self }
    }

    /// The agents that the node offers (`puppetral`).
    #[must_use]
    pub fn with_agents(self, agents: &'a [String]) -> Self {
        Self { agents, ..self }
    }

    /// The collectives that the node has joined.
    #[must_use]
    pub fn with_collectives(self, collectives: &'a [String]) -> Self {
        Self { collectives, ..self }
    }

    /// A field that is a map; `None` while it is unknown.
    #[must_use]
    pub fn with_map(mut self, field: MapField, map: Option<&'a NodeFacts>) -> Self {
        if field == MapField::Facts {
            self.facts = map.unwrap_or(self.facts);
        } else {
            *self.optional_maps.get_mut(field) = map;
        }
        self
    }

    /// All fields that are maps; `None` for those that are unknown.
    #[must_use]
    pub fn with_maps<M: Borrow<NodeFacts>>(self, maps: &'a MapFields<Option<M>>) -> Self {
        maps.iter()
            .fold(self, |view, (field, map)| view.with_map(field, map.as_ref().map(Borrow::borrow)))
    }

    /// The node's name.
    pub fn identity(&self) -> &'a str {
        self.identity
    }

    /// A field that is a map; `None` while it is unknown.
    pub(crate) fn map(&self, field: MapField) -> Option<&'a NodeFacts> {
        if field == MapField::Facts { Some(self.facts) } else { *self.optional_maps.get(field) }
    }
}
