//! Who is in the demonstration's fleet: names, facts and classes, different enough that filters have something to do.

use muster_wire::identity::{Identity, NameError};
use serde::Serialize;

/// The user that asks.
pub const DEMO_USER: &str = "demo";

/// A node as it shall be.
#[derive(Debug)]
pub struct DemoNode {
    /// Its name.
    pub name: Identity,
    /// Its facts, besides those of this machine.
    pub facts: DemoFacts,
    /// Its classes.
    pub classes: Vec<&'static str>,
}

/// The facts that differ.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct DemoFacts {
    country: &'static str,
    customer: &'static str,
    environment: &'static str,
    role: &'static str,
}

/// A kind of node: what comes before and after its number, environment, customer, and class beside `common`.
struct DemoNodePattern(
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
);

/// Every round of five has two nodes that `environment=development customer=acme mysql::master` finds.
const NODE_PATTERNS: [DemoNodePattern; 5] = [
    DemoNodePattern("db", "dev.acme.net", "development", "acme", "mysql::master"),
    DemoNodePattern("db", "dev.acme.net", "development", "acme", "mysql::master"),
    DemoNodePattern("web", "dev.acme.net", "development", "acme", "apache"),
    DemoNodePattern("db", "acme.net", "production", "acme", "mysql::master"),
    DemoNodePattern("web", "dev.initech.net", "development", "initech", "apache"),
];

const COUNTRIES: [&str; 4] = ["de", "nl", "us", "br"];

/// The first so many nodes.
pub fn demo_nodes(count: usize) -> Result<Vec<DemoNode>, NameError> {
    let endless = NODE_PATTERNS
        .iter()
        .cycle()
        .zip(COUNTRIES.iter().cycle())
        .take(count);
    let mut members: Vec<DemoNode> = Vec::with_capacity(count);
    for (DemoNodePattern(role, domain, environment, customer, class), country) in endless {
        let alike = |member: &&DemoNode| {
            member.name.as_str().starts_with(role)
                && member
                    .name
                    .as_str()
                    .split_once('.')
                    .is_some_and(|(_, rest)| rest == *domain)
        };
        let number = members.iter().filter(alike).count() + 1;
        members.push(DemoNode {
            name: Identity::parse(&format!("{role}{number}.{domain}"))?,
            facts: DemoFacts {
                country,
                customer,
                environment,
                role,
            },
            classes: vec!["common", class],
        });
    }
    Ok(members)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::demo_nodes;

    #[test]
    fn names_differ_and_the_filter_of_the_documentation_finds_some_but_not_all() {
        let fleet = demo_nodes(23).unwrap();
        let names: BTreeSet<_> = fleet.iter().map(|member| member.name.clone()).collect();
        assert_eq!(names.len(), 23);
        let found = |count: usize| {
            let fleet = demo_nodes(count).unwrap();
            let matching = fleet.iter().filter(|member| {
                member.facts.environment == "development"
                    && member.facts.customer == "acme"
                    && member.classes.contains(&"mysql::master")
            });
            matching
                .map(|member| member.name.to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(found(5), ["db1.dev.acme.net", "db2.dev.acme.net"]);
        assert_eq!(found(7).len(), 4);
    }
}
