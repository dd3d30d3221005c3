//! Node state as values: facts, and the view of a node for filter evaluation.
//!
//! Nothing here reads a machine or a store. The daemon, the directory and the client each build these values from their own
//! data, so filters evaluate identically in all of them.

pub mod facts;
pub mod path;

use std::borrow::Borrow;

pub use facts::{NodeFacts, NodeFactsError};
pub use path::{FactPath, FactPathError};

/// A field of a node that is a map, which filters, the directory and lists of values address by dotted paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapField {
    /// What the node knows about its machine.
    Facts,
    /// What its subsystems report, by their names (`puppet`).
    State,
}

impl MapField {
    /// All fields, the facts first.
    pub const ALL: [Self; 2] = [Self::Facts, Self::State];

    /// The name in queries and in the record.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Facts => "facts",
            Self::State => "state",
        }
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
    state: Option<&'a NodeFacts>,
}

impl<'a> NodeView<'a> {
    /// A node without classes, agents and collectives, of which other maps than the facts are unknown. The name is lower-case.
    pub fn new(identity: &'a str, facts: &'a NodeFacts) -> Self {
        let (classes, agents, collectives) = (&[], &[], &[]);
        Self { identity, facts, classes, classes_known: true, agents, collectives, state: None }
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
    pub fn with_map(self, field: MapField, map: Option<&'a NodeFacts>) -> Self {
        match field {
            MapField::Facts => Self { facts: map.unwrap_or(self.facts), ..self },
            MapField::State => Self { state: map, ..self },
        }
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
        match field {
            MapField::Facts => Some(self.facts),
            MapField::State => self.state,
        }
    }
}
