//! The names of facts that a filter reads, so that a store of many nodes decodes no others.

use std::collections::BTreeSet;

use crate::state::FactPath;

/// The top-level facts that a filter reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReferencedFacts {
    /// All of them, because the filter compares the facts as a whole.
    All,
    /// Those with these names.
    Named(BTreeSet<String>),
}

impl ReferencedFacts {
    /// No fact.
    pub(crate) fn none() -> Self {
        Self::Named(BTreeSet::new())
    }

    /// The facts at these paths.
    pub fn of_paths<'a>(paths: impl IntoIterator<Item = &'a FactPath>) -> Self {
        let mut found = Self::none();
        paths.into_iter().for_each(|path| found.add_path(path));
        found
    }

    /// Adds the names of a path: the path itself, because an exact name takes precedence, and its first segment.
    pub(crate) fn add_path(&mut self, path: &FactPath) {
        if let Self::Named(names) = self {
            names.insert(path.as_str().to_owned());
            names.extend(path.segments().next().map(str::to_owned));
        }
    }

    /// Adds a top-level name.
    pub(crate) fn add_name(&mut self, name: &str) {
        if let Self::Named(names) = self {
            names.insert(name.to_owned());
        }
    }

    /// Adds all facts.
    pub(crate) fn add_all(&mut self) {
        *self = Self::All;
    }
}
