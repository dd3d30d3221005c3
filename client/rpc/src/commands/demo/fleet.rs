//! The nodes of the demonstration: names, facts and classes with enough variety to try filters on.

use muster_wire::identity::{Identity, NameError};
use serde::Serialize;

/// Name of the demonstration's user, who may do everything.
pub const DEMO_USER: &str = "demo";

/// Name of a second user, who may only read.
pub const GUEST_USER: &str = "guest";

/// Name of the central services in policies.
pub const SERVICE_NAME: &str = "services";

#[derive(Debug)]
pub struct DemoNode {
    pub name: Identity,
    /// Its facts, in addition to those of this machine.
    pub facts: DemoFacts,
    pub classes: Vec<&'static str>,
    pub service: &'static str,
    pub package: DemoPackage,
}

/// A package that is installed in the first of two versions.
#[derive(Debug)]
pub struct DemoPackage {
    pub name: &'static str,
    /// The installed version, and a newer one.
    pub versions: [&'static str; 2],
}

fn role_software(role: &str) -> (&'static str, DemoPackage) {
    match role {
        "web" => ("httpd", DemoPackage { name: "apache2", versions: ["2.4.57-2", "2.4.62-1"] }),
        _ => ("mysqld", DemoPackage { name: "mysql-server", versions: ["8.0.36-1", "8.0.39-1"] }),
    }
}

/// Facts that differ between the nodes.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct DemoFacts {
    country: &'static str,
    customer: &'static str,
    environment: &'static str,
    role: &'static str,
}

/// Pattern of a node: prefix and suffix of its number, environment, customer, and a class in addition to `common`.
struct DemoNodePattern(&'static str, &'static str, &'static str, &'static str, &'static str);

/// Two of every five nodes match `environment=development customer=acme mysql::master`.
const NODE_PATTERNS: [DemoNodePattern; 5] = [
    DemoNodePattern("db", "dev.acme.net", "development", "acme", "mysql::master"),
    DemoNodePattern("db", "dev.acme.net", "development", "acme", "mysql::master"),
    DemoNodePattern("web", "dev.acme.net", "development", "acme", "apache"),
    DemoNodePattern("db", "acme.net", "production", "acme", "mysql::master"),
    DemoNodePattern("web", "dev.initech.net", "development", "initech", "apache"),
];

const COUNTRIES: [&str; 4] = ["de", "nl", "us", "br"];

/// The first `count` nodes.
pub fn demo_nodes(count: usize) -> Result<Vec<DemoNode>, NameError> {
    let patterns = NODE_PATTERNS.iter().cycle().zip(COUNTRIES.iter().cycle()).take(count);
    let mut nodes: Vec<DemoNode> = Vec::with_capacity(count);
    for (DemoNodePattern(role, domain, environment, customer, class), country) in patterns {
        let has_same_role = |node: &&DemoNode| {
            node.name.as_str().starts_with(role)
                && node.name.as_str().split_once('.').is_some_and(|(_, rest)| rest == *domain)
        };
        let number = nodes.iter().filter(has_same_role).count() + 1;
        let (service, package) = role_software(role);
        nodes.push(DemoNode {
            name: Identity::parse(&format!("{role}{number}.{domain}"))?,
            facts: DemoFacts { country, customer, environment, role },
            classes: vec!["common", class],
            service,
            package,
        });
    }
    Ok(nodes)
}

/// The node that runs the central services of a fleet of virtual nodes.
pub fn service_host() -> Result<DemoNode, NameError> {
    let (service, package) = role_software("services");
    Ok(DemoNode {
        name: Identity::parse("services.acme.net")?,
        facts: DemoFacts {
            country: "nl",
            customer: "acme",
            environment: "production",
            role: "services",
        },
        classes: vec!["common"],
        service,
        package,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::demo_nodes;

    #[test]
    fn names_are_unique_and_the_documented_filter_matches_some() {
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
            matching.map(|member| member.name.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(found(5), ["db1.dev.acme.net", "db2.dev.acme.net"]);
        assert_eq!(found(7).len(), 4);
    }
}
