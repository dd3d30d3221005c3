//! The names of facts that a filter reads, so that a store of many nodes decodes no others.

use std::collections::BTreeSet;

use crate::ast::NodeFilter;
use crate::document::DocumentQuery;
use crate::state::FactPath;
use crate::term::FactTerm;

/// The top-level facts that a filter reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReferencedFacts {
    /// All of them, because the filter compares the facts as a whole.
    All,
    /// Those with these names.
    Named(BTreeSet<String>),
}

impl ReferencedFacts {
    fn none() -> Self {
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

impl NodeFilter {
    /// The facts that decide whether a node matches.
    pub fn referenced_facts(&self) -> ReferencedFacts {
        let mut found = ReferencedFacts::of_paths(self.facts().iter().map(FactTerm::fact_path));
        if let Some(select) = self.select() {
            select.fact_paths().into_iter().for_each(|path| found.add_path(path));
        }
        if let Some(query) = self.query() {
            DocumentQuery::add_referenced_facts(query, &mut found);
        }
        found
    }

    /// The parts of the state that decide whether a node matches.
    pub fn referenced_state(&self) -> ReferencedFacts {
        let mut found = ReferencedFacts::none();
        if let Some(query) = self.query() {
            DocumentQuery::add_referenced_state(query, &mut found);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(filter: &NodeFilter) -> Vec<String> {
        match filter.referenced_facts() {
            ReferencedFacts::All => vec!["*".to_owned()],
            ReferencedFacts::Named(names) => names.into_iter().collect(),
        }
    }

    #[test]
    fn every_kind_of_condition_names_its_facts() {
        let filter = NodeFilter::default();
        assert_eq!(names(&filter), [""; 0]);
        let filter = filter.with_fact("os.family=Debian").unwrap();
        let filter = filter.with_select("fact('load.average') > 3 or not country=de").unwrap();
        let query =
            "{'$or': [{'facts.disks.0.size': 5}, {'$nor': [{'facts.\"a.b\"': 1}]}], identity: 'x'}";
        let filter = filter.with_query(query).unwrap();
        let expected = [
            "\"a.b\"",
            "a.b",
            "country",
            "disks",
            "disks.0.size",
            "load",
            "load.average",
            "os",
            "os.family",
        ];
        assert_eq!(names(&filter), expected);
        let filter = filter.with_query("{facts: {a: 1}}").unwrap();
        assert_eq!(names(&filter), ["*"]);
        let filter = NodeFilter::default().with_query("{'state.puppet.disabled': true}").unwrap();
        assert_eq!(names(&filter), [""; 0]);
        let wanted = ["puppet", "puppet.disabled"].map(str::to_owned).into();
        assert_eq!(filter.referenced_state(), ReferencedFacts::Named(wanted));
    }
}
