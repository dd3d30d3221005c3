//! Chooses the master of a node: the first criterion for which any master has the node's value decides. Pure.

use muster_api::wire::identity::Identity;
use serde_json::{Map, Value};

#[derive(Debug, Clone, PartialEq)]
pub struct PuppetMaster {
    pub identity: Identity,
    /// The address under which nodes reach it.
    pub address: String,
    /// Those of its facts that are criteria.
    pub facts: Map<String, Value>,
}

/// A chosen master, and why it was chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct MasterPlacement<'a> {
    pub master: &'a PuppetMaster,
    /// The deciding criterion; `None` when any master was acceptable.
    pub criterion: Option<&'a str>,
}

/// Chooses a master. The first criterion for which any master has the node's value decides; later ones are ignored. Among several matching masters
/// the choice is stable per node, and nodes are distributed over them.
pub fn choose_master<'a>(
    node: &Identity,
    facts: &Map<String, Value>,
    criteria: &'a [String],
    masters: &'a [PuppetMaster],
    allow_any: bool,
) -> Option<MasterPlacement<'a>> {
    for criterion in criteria {
        let Some(value) = facts.get(criterion).filter(|value| is_meaningful(value)) else {
            continue;
        };
        let matching = masters.iter().filter(|master| master.facts.get(criterion) == Some(value));
        if let Some(master) = preferred_master(node, matching) {
            return Some(MasterPlacement { master, criterion: Some(criterion) });
        }
    }
    let master = preferred_master(node, masters.iter().filter(|_| allow_any))?;
    Some(MasterPlacement { master, criterion: None })
}

/// Whether a fact can match: null and the empty string mean that the fact is unknown.
fn is_meaningful(value: &Value) -> bool {
    !value.is_null() && value.as_str() != Some("")
}

/// Rendezvous hashing (highest random weight): adding or removing a master moves only the nodes assigned to it.
fn preferred_master<'a>(
    node: &Identity,
    masters: impl Iterator<Item = &'a PuppetMaster>,
) -> Option<&'a PuppetMaster> {
    masters.max_by_key(|master| {
        let weight = rendezvous_weight(node.as_str(), master.identity.as_str());
        (weight, std::cmp::Reverse(&master.identity))
    })
}

/// FNV-1a over both names, with a final mix (from `MurmurHash3`), because names that differ only in the last letter would get correlated weights.
fn rendezvous_weight(node: &str, master: &str) -> u64 {
    let bytes = node.bytes().chain([0]).chain(master.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ (mixed >> 33)
}
