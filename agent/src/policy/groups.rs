//! The file `groups`: `sysadmins rip anna`, one group a line. Groups hold callers, not groups.

use std::collections::{BTreeMap, BTreeSet};

use muster_wire::identity::{Identity, Name};

use super::error::PolicyFault;

/// Groups and their members.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Groups(BTreeMap<String, BTreeSet<Identity>>);

impl Groups {
    /// Reads the whole file, or nothing of it. Errors carry the line.
    pub(super) fn parse(text: &str) -> Result<Self, (usize, PolicyFault)> {
        let mut groups = Self::default();
        for (number, line) in lines(text) {
            groups.add(line).map_err(|fault| (number, fault))?;
        }
        for (number, line) in lines(text) {
            let nested = |word: &&str| groups.0.contains_key(&word.to_ascii_lowercase());
            if let Some(word) = line.split_whitespace().skip(1).find(nested) {
                return Err((number, PolicyFault::NestedGroup(word.to_owned())));
            }
        }
        Ok(groups)
    }

    fn add(&mut self, line: &str) -> Result<(), PolicyFault> {
        let mut words = line.split_whitespace();
        let word = words.next().unwrap_or_default();
        let name = Name::parse(word).map_err(|error| PolicyFault::Caller {
            word: word.to_owned(),
            error,
        })?;
        let members = words.map(caller).collect::<Result<BTreeSet<_>, _>>()?;
        if members.is_empty() {
            return Err(PolicyFault::EmptyGroup(name.into()));
        }
        match self.0.insert(name.as_str().to_owned(), members) {
            Some(_) => Err(PolicyFault::SecondGroup(name.into())),
            None => Ok(()),
        }
    }

    /// Who a word of a policy's caller field means: the members of that group, or the one caller of that name.
    pub(super) fn callers(&self, word: &str) -> Result<BTreeSet<Identity>, PolicyFault> {
        match self.0.get(&word.to_ascii_lowercase()) {
            Some(members) => Ok(members.clone()),
            None => Ok(BTreeSet::from([caller(word)?])),
        }
    }
}

/// One caller: its name, alone or after one of the prefixes that policies of `MCollective` and Choria have.
fn caller(word: &str) -> Result<Identity, PolicyFault> {
    let name = match word.split_once('=') {
        _ if word.starts_with('/') => return Err(PolicyFault::CallerExpression(word.to_owned())),
        Some(("caller" | "cert" | "choria", name)) => name,
        Some(_) => return Err(PolicyFault::CallerKind(word.to_owned())),
        None => word,
    };
    Identity::parse(name).map_err(|error| PolicyFault::Caller {
        word: word.to_owned(),
        error,
    })
}

/// The lines that say something, with their numbers from 1: neither blank nor comments.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = text
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.trim()));
    numbered.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::Groups;
    use crate::policy::PolicyFault;

    #[test]
    fn a_word_is_a_group_or_else_a_caller() {
        let groups = Groups::parse("# ours\nsysadmins rip cert=Anna\n\ndba\tchoria=joe\n").unwrap();
        let who = |word: &str| {
            let callers = groups.callers(word).unwrap();
            callers
                .iter()
                .map(|caller| caller.as_str().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(who("sysadmins"), ["anna", "rip"]);
        assert_eq!(who("DBA"), ["joe"]);
        assert_eq!(who("rip"), ["rip"]);
        assert_eq!(who("caller=dba"), ["dba"]);
    }

    #[test]
    fn a_line_that_is_not_understood_refuses_the_file() {
        let fault = |text: &str| Groups::parse(text).unwrap_err();
        assert!(matches!(fault("a rip\nb"), (2, PolicyFault::EmptyGroup(_))));
        assert!(matches!(
            fault("a rip\n#\na joe"),
            (3, PolicyFault::SecondGroup(_))
        ));
        assert!(matches!(
            fault("a b\nb rip"),
            (1, PolicyFault::NestedGroup(_))
        ));
        assert!(matches!(
            fault("a /rip/"),
            (1, PolicyFault::CallerExpression(_))
        ));
        assert!(matches!(fault("a uid=0"), (1, PolicyFault::CallerKind(_))));
        assert!(matches!(fault("a! rip"), (1, PolicyFault::Caller { .. })));
        assert!(matches!(fault("a r!p"), (1, PolicyFault::Caller { .. })));
    }
}
