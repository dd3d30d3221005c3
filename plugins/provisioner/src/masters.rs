//! Which master a node gets: the first fact that it shares with any decides. Pure.

use muster_api::wire::identity::Identity;
use serde_json::{Map, Value};

/// A Puppet master that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct PuppetMaster {
    /// Its name.
    pub identity: Identity,
    /// Where nodes reach it.
    pub address: String,
    /// Its facts, those that matter.
    pub facts: Map<String, Value>,
}

/// Why a node got that master.
#[derive(Debug, Clone, PartialEq)]
pub struct MasterPlacement<'a> {
    /// The master.
    pub master: &'a PuppetMaster,
    /// The fact that decided; none when any master would do.
    pub criterion: Option<&'a str>,
}

/// Chooses: the first criterion in which any master equals the node decides, and no later one. Among several that do, each node has one
/// that is always the same, and nodes spread over them.
pub fn choose_master<'a>(
    node: &Identity,
    facts: &Map<String, Value>,
    criteria: &'a [String],
    masters: &'a [PuppetMaster],
    any: bool,
) -> Option<MasterPlacement<'a>> {
    for criterion in criteria {
        let Some(own) = facts.get(criterion).filter(|value| is_meaningful(value)) else {
            continue;
        };
        let near = masters
            .iter()
            .filter(|master| master.facts.get(criterion) == Some(own));
        if let Some(master) = preferred_master(node, near) {
            return Some(MasterPlacement {
                master,
                criterion: Some(criterion),
            });
        }
    }
    let master = preferred_master(node, masters.iter().filter(|_| any))?;
    Some(MasterPlacement {
        master,
        criterion: None,
    })
}

/// A fact that is empty says nothing: two machines of nowhere are not near each other.
fn is_meaningful(value: &Value) -> bool {
    !value.is_null() && value.as_str() != Some("")
}

/// Highest random weight: a master that goes or comes moves only the nodes that are its own.
fn preferred_master<'a>(
    node: &Identity,
    masters: impl Iterator<Item = &'a PuppetMaster>,
) -> Option<&'a PuppetMaster> {
    masters.max_by_key(|master| {
        let weight = rendezvous_weight(node.as_str(), master.identity.as_str());
        (weight, std::cmp::Reverse(&master.identity))
    })
}

/// FNV-1a over both names, mixed once more, because names that differ in their last letter must not go together.
fn rendezvous_weight(node: &str, master: &str) -> u64 {
    let bytes = node.bytes().chain([0]).chain(master.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ (mixed >> 33)
}
