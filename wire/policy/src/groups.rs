//! The file `groups`: one group per line, as in `sysadmins rip anna`. Groups contain callers and no other groups.

use std::collections::{BTreeMap, BTreeSet};

use muster_wire::identity::SubjectName;

use super::fault::{FieldResult, PolicyFault, PolicyLineFault};
use super::principal::{PolicyPrincipal, PrincipalError, split_role};
use super::span::{LineSpan, policy_lines};

/// Groups and their members.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallerGroups(BTreeMap<String, BTreeSet<PolicyPrincipal>>);

impl CallerGroups {
    /// Parses the whole file. Returns its valid groups, and all faults in line order. A file with a fault must not be used; its groups are for
    /// checks only.
    pub fn parse(text: &str) -> (Self, Vec<PolicyLineFault>) {
        let mut groups = Self::default();
        let mut faults = Vec::new();
        for (line, span) in policy_lines(text) {
            if let Err((column, fault)) = groups.add_line(span) {
                faults.push(PolicyLineFault { line, column, fault });
            }
        }
        for (line, span) in policy_lines(text) {
            let is_group = |word: &LineSpan<'_>| groups.group_members(word.text()).is_some();
            if let Some(word) = span.split_words().skip(1).find(is_group) {
                faults.push(PolicyLineFault {
                    line,
                    column: word.column(),
                    fault: PolicyFault::NestedGroup(word.text().to_owned()),
                });
            }
        }
        faults.sort_by_key(|line_fault| (line_fault.line, line_fault.column));
        (groups, faults)
    }

    fn add_line(&mut self, span: LineSpan<'_>) -> FieldResult<()> {
        let mut words = span.split_words();
        let first = words.next().unwrap_or(span);
        let fault_at = |word: LineSpan<'_>, fault| (word.column(), fault);
        let group = SubjectName::parse(first.text()).map_err(|error| {
            let word = first.text().to_owned();
            fault_at(first, PrincipalError::Name { word, error }.into())
        })?;
        let mut members = BTreeSet::new();
        for word in words {
            if split_role(word.text()).is_some_and(|(_, rest)| rest.starts_with('/')) {
                let text = word.text().to_owned();
                return Err(fault_at(word, PolicyFault::GroupExpression(text)));
            }
            let member = PolicyPrincipal::parse(word.text());
            members.insert(member.map_err(|error| fault_at(word, error.into()))?);
        }
        if members.is_empty() {
            return Err(fault_at(first, PolicyFault::EmptyGroup(group.into())));
        }
        match self.0.insert(group.as_str().to_owned(), members) {
            Some(_) => Err(fault_at(first, PolicyFault::SecondGroup(group.into()))),
            None => Ok(()),
        }
    }

    /// The members of a group, if it exists.
    pub fn group_members(&self, group: &str) -> Option<&BTreeSet<PolicyPrincipal>> {
        self.0.get(&group.to_ascii_lowercase())
    }

    /// The names of all groups.
    pub fn group_names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The members of all groups.
    pub fn all_members(&self) -> impl Iterator<Item = &PolicyPrincipal> {
        self.0.values().flatten()
    }
}
