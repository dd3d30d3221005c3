//! Discovery methods by name, and the conditions that each supports.

use std::fmt;
use std::str::FromStr;

use super::query::DiscoveryQuery;

/// A discovery method.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiscoveryMethod {
    /// The directory if one answers, otherwise a broadcast.
    #[default]
    Automatic,
    /// The directory: what nodes have published about themselves.
    Directory,
    /// Broadcast request; matching nodes reply.
    Broadcast,
    /// A list of names in a file.
    Flat,
    /// A list of names from the standard input.
    Stdin,
    /// An external program.
    External,
    /// An inventory document that describes every node.
    Inventory,
    /// `PuppetDB`.
    PuppetDb,
}

/// A kind of condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConditionKind {
    /// `-F`, and facts in `-W`.
    Facts,
    /// `-C`, and classes in `-W`.
    Classes,
    /// `-A`.
    Agents,
    /// `-I`.
    Identities,
    /// `-S`.
    Select,
    /// `-Q`.
    Query,
    /// `-I group:NAME`.
    Groups,
    /// `-I pql:QUERY`.
    Pql,
}

/// An unknown method name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a discovery method; the methods are {}", DiscoveryMethod::all_names())]
pub struct DiscoveryMethodError {
    /// The given text.
    pub text: String,
}

/// A condition that the method does not support.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the discovery method {method} does not support {kind}; use {}", kind.supporting_methods())]
pub struct UnsupportedCondition {
    /// The method.
    pub method: DiscoveryMethod,
    /// The kind of condition.
    pub kind: ConditionKind,
}

impl DiscoveryMethod {
    /// All methods.
    pub const ALL: [Self; 8] = [
        Self::Automatic,
        Self::Directory,
        Self::Broadcast,
        Self::Flat,
        Self::Stdin,
        Self::External,
        Self::Inventory,
        Self::PuppetDb,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Automatic => "auto",
            Self::Directory => "directory",
            Self::Broadcast => "broadcast",
            Self::Flat => "flat",
            Self::Stdin => "stdin",
            Self::External => "external",
            Self::Inventory => "inventory",
            Self::PuppetDb => "puppetdb",
        }
    }

    /// The names of this method in `MCollective` and Choria.
    pub fn aliases(self) -> &'static [&'static str] {
        match self {
            Self::Broadcast => &["mc"],
            Self::Flat => &["flatfile", "file"],
            Self::PuppetDb => &["choria"],
            Self::Automatic | Self::Directory | Self::Stdin | Self::External | Self::Inventory => {
                &[]
            }
        }
    }

    /// The supported kinds of conditions; all others are rejected.
    pub fn supported_conditions(self) -> &'static [ConditionKind] {
        use ConditionKind::{Agents, Classes, Facts, Groups, Identities, Pql, Query, Select};
        match self {
            Self::Automatic | Self::Directory | Self::Broadcast => {
                &[Facts, Classes, Agents, Identities, Select, Query]
            }
            // Choria's protocol has no member for query documents.
            Self::External => &[Facts, Classes, Agents, Identities, Select],
            Self::Flat | Self::Stdin => &[Identities],
            Self::Inventory => &[Facts, Classes, Agents, Identities, Select, Query, Groups],
            Self::PuppetDb => &[Facts, Classes, Identities, Pql],
        }
    }

    /// Whether the fleet is asked, by the directory or by a broadcast.
    pub fn asks_fleet(self) -> bool {
        matches!(self, Self::Automatic | Self::Directory | Self::Broadcast)
    }

    /// Checks that the method supports every condition of the query.
    pub fn check_supported(self, query: &DiscoveryQuery) -> Result<(), UnsupportedCondition> {
        match query.condition_kinds().find(|kind| !self.supported_conditions().contains(kind)) {
            Some(kind) => Err(UnsupportedCondition { method: self, kind }),
            None => Ok(()),
        }
    }

    fn all_names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }
}

impl ConditionKind {
    fn supporting_methods(self) -> String {
        let methods = DiscoveryMethod::ALL
            .into_iter()
            .filter(|method| method.supported_conditions().contains(&self));
        let methods: Vec<&str> = methods.map(DiscoveryMethod::name).collect();
        match methods.split_last() {
            Some((last, [])) => (*last).to_owned(),
            Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
            None => "another filter".to_owned(),
        }
    }
}

impl fmt::Display for DiscoveryMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for ConditionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Facts => "facts (-F, -W)",
            Self::Classes => "classes (-C, -W)",
            Self::Agents => "agents (-A)",
            Self::Identities => "identities (-I)",
            Self::Select => "expressions (-S)",
            Self::Query => "query documents (-Q)",
            Self::Groups => "groups (-I group:NAME)",
            Self::Pql => "PQL (-I pql:QUERY)",
        })
    }
}

impl FromStr for DiscoveryMethod {
    type Err = DiscoveryMethodError;

    fn from_str(text: &str) -> Result<Self, DiscoveryMethodError> {
        Self::ALL
            .into_iter()
            .find(|method| method.name() == text || method.aliases().contains(&text))
            .ok_or_else(|| DiscoveryMethodError { text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use muster_filter::NodeFilter;

    use super::{ConditionKind, DiscoveryMethod};
    use crate::discovery::DiscoveryQuery;

    #[test]
    fn methods_have_aliases() {
        for (text, method) in [
            ("mc", DiscoveryMethod::Broadcast),
            ("broadcast", DiscoveryMethod::Broadcast),
            ("flatfile", DiscoveryMethod::Flat),
            ("file", DiscoveryMethod::Flat),
            ("choria", DiscoveryMethod::PuppetDb),
        ] {
            assert_eq!(text.parse(), Ok(method));
        }
        let names: Vec<&str> = DiscoveryMethod::ALL
            .iter()
            .flat_map(|method| method.aliases().iter().copied().chain([method.name()]))
            .collect();
        let unique: std::collections::BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(names.len(), unique.len());
        insta::assert_snapshot!(
            "mongo".parse::<DiscoveryMethod>().unwrap_err(),
            @r#""mongo" is not a discovery method; the methods are auto, directory, broadcast, flat, stdin, external, inventory, puppetdb"#
        );
    }

    #[test]
    fn unsupported_conditions_are_refused_with_alternatives() {
        let wanted = |filter: NodeFilter| DiscoveryQuery { filter, ..DiscoveryQuery::default() };
        let facts = wanted(NodeFilter::default().with_words("a=1 b").unwrap());
        let select = wanted(NodeFilter::default().with_select("a or b").unwrap());
        let query = wanted(NodeFilter::default().with_query("{classes: a}").unwrap());
        let groups = DiscoveryQuery { groups: vec!["web".into()], ..DiscoveryQuery::default() };
        for (wanted, able) in [
            (facts, "auto directory broadcast external inventory puppetdb"),
            (select, "auto directory broadcast external inventory"),
            (query, "auto directory broadcast inventory"),
            (groups, "inventory"),
            (
                DiscoveryQuery::default(),
                "auto directory broadcast flat stdin external inventory puppetdb",
            ),
        ] {
            let passed = DiscoveryMethod::ALL
                .into_iter()
                .filter(|method| method.check_supported(&wanted).is_ok());
            let passed: Vec<&str> = passed.map(DiscoveryMethod::name).collect();
            assert_eq!(passed.join(" "), able);
        }
        let wanted = wanted(NodeFilter::default().with_agent("rpcutil").unwrap());
        let refused = DiscoveryMethod::PuppetDb.check_supported(&wanted).unwrap_err();
        assert_eq!(refused.kind, ConditionKind::Agents);
        assert_eq!(
            refused.to_string(),
            "the discovery method puppetdb does not support agents (-A); use auto, directory, broadcast, external or inventory"
        );
    }
}
