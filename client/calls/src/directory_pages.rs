//! Checks the pages of a directory's list, so that no instance can name other nodes than were asked for, or never end.

use muster_base::compare_natural;
use muster_filter::NodeFilter;
use muster_wire::identity::Identity;

use crate::directory::DirectoryError;

/// The most nodes of one list: several times the largest fleet.
const MAX_LISTED_NODES: usize = 250_000;

/// The pages of one list that were read so far.
#[derive(Debug)]
pub struct DirectoryPages {
    filter: NodeFilter,
    count: usize,
    last: String,
}

impl DirectoryPages {
    /// Of a list of nodes that match a filter.
    pub fn new(filter: &NodeFilter) -> Self {
        Self { filter: filter.only_identities(), count: 0, last: String::new() }
    }

    /// Checks a page of this instance: names ascend from page to page, and each is one that the filter permits. Returns the name after which the next page
    /// begins, if there is one.
    pub fn accept<'n>(
        &mut self,
        instance: Option<&Identity>,
        names: impl IntoIterator<Item = &'n str>,
        next: Option<String>,
    ) -> Result<Option<String>, DirectoryError> {
        let sender = || instance.map(ToString::to_string).unwrap_or_default();
        let before = self.count;
        for name in names {
            if !self.filter.selects_identity(name) {
                return Err(DirectoryError::OtherNode {
                    instance: sender(),
                    node: name.to_owned(),
                });
            }
            let ascends = self.count == 0 || compare_natural(&self.last, name).is_lt();
            if !ascends || self.count == MAX_LISTED_NODES {
                return Err(DirectoryError::Endless(sender()));
            }
            name.clone_into(&mut self.last);
            self.count += 1;
        }
        if next.as_ref().is_some_and(|next| *next != self.last || self.count == before) {
            return Err(DirectoryError::Endless(sender()));
        }
        Ok(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(identity: &str) -> DirectoryPages {
        DirectoryPages::new(&NodeFilter::default().with_identity(identity).unwrap())
    }

    #[test]
    fn pages_ascend_and_end() {
        let mut ascending = pages("/./");
        let next = ascending.accept(None, ["a", "b"], Some("b".to_owned())).unwrap();
        assert_eq!(next.as_deref(), Some("b"));
        assert_eq!(ascending.accept(None, ["c"], None).unwrap(), None);
        for (names, next) in [
            (&["b"][..], None),
            (&["a", "c"], None),
            (&["d", "c"], None),
            (&[], Some("b")),
            (&["c"], Some("b")),
            (&["c"], Some("d")),
        ] {
            let mut pages = pages("/./");
            pages.accept(None, ["a", "b"], Some("b".to_owned())).unwrap();
            let refused = pages.accept(None, names.iter().copied(), next.map(str::to_owned));
            assert!(matches!(refused, Err(DirectoryError::Endless(_))), "{names:?} {next:?}");
        }
    }

    /// A directory lists names in their own order.
    #[test]
    fn numbers_in_names_ascend_by_value() {
        let mut ascending = pages("/./");
        let next = ascending.accept(None, ["db2", "db10"], Some("db10".to_owned())).unwrap();
        assert_eq!(next.as_deref(), Some("db10"));
        assert!(ascending.accept(None, ["db11", "web1"], None).is_ok());
        assert!(pages("/./").accept(None, ["db10", "db2"], None).is_err());
    }

    #[test]
    fn only_requested_names_are_accepted() {
        assert!(pages("/^web/").accept(None, ["web1", "web2"], None).is_ok());
        let refused = pages("/^web/").accept(None, ["db1", "web2"], None).unwrap_err();
        assert!(matches!(refused, DirectoryError::OtherNode { node, .. } if node == "db1"));
    }

    #[test]
    fn number_of_nodes_is_bounded() {
        let mut pages = pages("/./");
        let name = |number: usize| format!("n{number:09}");
        for number in 0..MAX_LISTED_NODES {
            assert!(pages.accept(None, [name(number).as_str()], Some(name(number))).is_ok());
        }
        let next = name(MAX_LISTED_NODES);
        assert!(pages.accept(None, [next.as_str()], None).is_err());
    }
}
