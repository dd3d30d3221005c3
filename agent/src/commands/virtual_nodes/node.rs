//! Virtual nodes: names, facts and classes, derived deterministically from their number. Pure.
//!
//! Every group of five matches `rpc demo`: two databases and a web server of acme's development environment, a database of its production
//! environment, and a web server of another customer. The other facts vary with the number, so that filters select different nodes.

use std::sync::Arc;

use muster_filter::state::NodeFacts;
use muster_wire::identity::{Identity, NameError};
use serde_json::json;

#[derive(Debug, Clone)]
pub struct VirtualNode {
    pub name: Identity,
    pub facts: Arc<NodeFacts>,
    /// Its classes, lower-case and sorted.
    pub classes: Arc<[String]>,
}

/// A kind of node: the prefix and suffix of its name, its environment and customer, and its class besides `common`.
struct NodeProfile {
    role: &'static str,
    domain: &'static str,
    environment: &'static str,
    customer: &'static str,
    class: &'static str,
}

const DATABASE_PROFILE: NodeProfile = NodeProfile {
    role: "db",
    domain: "dev.acme.net",
    environment: "development",
    customer: "acme",
    class: "mysql::master",
};
const WEB_PROFILE: NodeProfile = NodeProfile { role: "web", class: "apache", ..DATABASE_PROFILE };
const PRODUCTION_PROFILE: NodeProfile =
    NodeProfile { domain: "acme.net", environment: "production", ..DATABASE_PROFILE };
const OTHER_PROFILE: NodeProfile =
    NodeProfile { domain: "dev.initech.net", customer: "initech", ..WEB_PROFILE };

const NODES_PER_ROUND: usize = 5;
const COUNTRIES: [&str; 4] = ["de", "nl", "us", "br"];
const SITES: [&str; 6] = ["ams1", "ber1", "fra2", "gru1", "iad3", "pdx1"];
const OPERATING_SYSTEMS: [[&str; 4]; 4] = [
    ["Debian", "Debian", "12.7", "12"],
    ["Debian", "Ubuntu", "24.04", "24.04"],
    ["RedHat", "Rocky", "9.4", "9"],
    ["Suse", "SLES", "15.6", "15"],
];
const CORE_COUNTS: [u64; 5] = [2, 4, 8, 16, 64];
const RACK_COUNT: u64 = 40;
/// Each class is on one node in three, chosen pseudo-randomly.
const EXTRA_CLASSES: [&str; 6] = ["backup", "chrony", "docker", "monitoring", "sshd", "sudo"];

impl VirtualNode {
    /// The node with this number, counted from 0.
    pub fn from_number(number: usize) -> Result<Self, NameError> {
        let round = number / NODES_PER_ROUND;
        let (kind, ordinal) = match number % NODES_PER_ROUND {
            0 => (DATABASE_PROFILE, 2 * round + 1),
            1 => (DATABASE_PROFILE, 2 * round + 2),
            2 => (WEB_PROFILE, round + 1),
            3 => (PRODUCTION_PROFILE, round + 1),
            _ => (OTHER_PROFILE, round + 1),
        };
        let host = format!("{}{ordinal}", kind.role);
        let name = Identity::parse(&format!("{host}.{}", kind.domain))?;
        Ok(Self {
            facts: Arc::new(node_facts(number, &kind, &host, name.as_str())),
            classes: node_classes(number, &kind),
            name,
        })
    }
}

/// The facts of such a node; few enough to be small, with every value type that filters support.
fn node_facts(number: usize, kind: &NodeProfile, host: &str, name: &str) -> NodeFacts {
    let [family, system, release, major] = pick_choice(&OPERATING_SYSTEMS, draw_number(number, 0));
    let cores = pick_choice(&CORE_COUNTS, draw_number(number, 1));
    let ip = format!("10.{}.{}.{}", number >> 16, (number >> 8) & 255, number & 255);
    let facts = json!({
        "country": COUNTRIES.get(number % COUNTRIES.len()),
        "customer": kind.customer,
        "environment": kind.environment,
        "identity": name,
        "kernel": "Linux",
        "memory": {"system": {"total_bytes": cores << 31}},
        "networking": {"fqdn": name, "hostname": host, "ip": ip},
        "os": {"family": family, "name": system, "release": {"full": release, "major": major}},
        "processors": {"count": cores},
        "rack": draw_number(number, 2) % RACK_COUNT,
        "role": kind.role,
        "site": pick_choice(&SITES, draw_number(number, 3)),
        "virtual": "muster",
    });
    // Cannot fail: it is an object, and much smaller than the limit for facts.
    NodeFacts::from_value(facts).unwrap_or_default()
}

fn node_classes(number: usize, kind: &NodeProfile) -> Arc<[String]> {
    let drawn = EXTRA_CLASSES.iter().zip(4..);
    let drawn = drawn.filter(|(_, salt)| draw_number(number, *salt).is_multiple_of(3));
    let mut classes: Vec<String> = ["common", kind.class].map(str::to_owned).into();
    classes.extend(drawn.map(|(class, _)| (*class).to_owned()));
    classes.sort();
    classes.into()
}

/// A pseudo-random number, the same for the same arguments (the finaliser of `SplitMix64`).
fn draw_number(number: usize, salt: u64) -> u64 {
    let seed = u64::try_from(number).unwrap_or(u64::MAX);
    let mut bits = seed.wrapping_mul(64).wrapping_add(salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// One of the choices, of which there must be at least one.
fn pick_choice<T: Copy + Default>(choice: &[T], drawn: u64) -> T {
    let count = u64::try_from(choice.len()).unwrap_or(u64::MAX).max(1);
    let index = usize::try_from(drawn % count).ok();
    index.and_then(|index| choice.get(index)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::VirtualNode;

    fn told(member: &VirtualNode) -> Value {
        Value::Object(member.facts.as_map().clone())
    }

    #[test]
    fn names_are_unique_and_other_values_vary() {
        let fleet: Vec<VirtualNode> =
            (0..10_000).map(|number| VirtualNode::from_number(number).unwrap()).collect();
        let names: BTreeSet<&str> = fleet.iter().map(|member| member.name.as_str()).collect();
        assert_eq!(names.len(), fleet.len());
        let first: Vec<&str> = fleet.iter().take(6).map(|member| member.name.as_str()).collect();
        let expected = [
            "db1.dev.acme.net",
            "db2.dev.acme.net",
            "web1.dev.acme.net",
            "db1.acme.net",
            "web1.dev.initech.net",
            "db3.dev.acme.net",
        ];
        assert_eq!(first, expected);
        for pointer in [
            "/country",
            "/customer",
            "/os/family",
            "/os/release/major",
            "/processors/count",
            "/rack",
            "/site",
        ] {
            let values: BTreeSet<String> = fleet
                .iter()
                .map(|member| told(member).pointer(pointer).unwrap().to_string())
                .collect();
            assert!(values.len() > 1, "{pointer}: {values:?}");
        }
        let docker = |member: &&VirtualNode| member.classes.iter().any(|class| class == "docker");
        let docker = fleet.iter().filter(docker).count();
        assert!((2_500..4_500).contains(&docker), "{docker}");
        assert!(fleet.iter().all(|member| member.classes.is_sorted()));
    }

    #[test]
    fn same_number_gives_the_same_node() {
        let (one, other) =
            (VirtualNode::from_number(4711).unwrap(), VirtualNode::from_number(4711).unwrap());
        assert_eq!(told(&one), told(&other));
        assert_eq!(one.classes, other.classes);
    }
}
