//! Host keys that several nodes publish. Such a key proves no name: a node could publish the key and the address of another machine, and logins would go there.

use std::collections::{BTreeMap, BTreeSet};

use muster_calls::DirectoryError;
use muster_client::{FleetConnection, FleetRequestError, list_values};
use muster_contract::directory::DirectoryNodeRow;
use muster_filter::NodeFilter;
use muster_wire::identity::Identity;
use serde_json::{Value, json};

use super::{SshHostKey, SshNode};

/// Where the directory has the host keys of a node.
const HOST_KEYS_PATH: &str = "state.ssh.host_keys";

/// Another node has published a host key of this one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{node} and {other} publish the same ssh host key, so it does not tell them apart")]
pub struct SharedHostKeyError {
    /// The node.
    pub node: Identity,
    /// The other one.
    pub other: String,
}

/// Which nodes publish which host keys, according to the directory.
#[derive(Debug, Clone, Default)]
pub struct HostKeyOwners(BTreeMap<String, BTreeSet<String>>);

impl HostKeyOwners {
    fn from_rows(rows: &[DirectoryNodeRow]) -> Self {
        let mut owners = BTreeMap::<String, BTreeSet<String>>::new();
        for row in rows {
            let keys = row.fields.get(HOST_KEYS_PATH).and_then(Value::as_array);
            for key in keys.into_iter().flatten().filter_map(Value::as_str) {
                owners.entry(key.to_owned()).or_default().insert(row.node.clone());
            }
        }
        Self(owners)
    }

    /// Fails if another node publishes a key of this node.
    pub fn check_node(&self, node: &SshNode) -> Result<(), SharedHostKeyError> {
        let owners = node.host_keys.iter().filter_map(|key| self.0.get(key.as_str())).flatten();
        match owners.into_iter().find(|owner| *owner != node.node.as_str()) {
            Some(other) => {
                Err(SharedHostKeyError { node: node.node.clone(), other: other.clone() })
            }
            None => Ok(()),
        }
    }
}

/// Asks the directory which nodes of the fleet publish the host keys of these nodes.
pub async fn read_host_key_owners(
    fleet: &FleetConnection,
    nodes: &[SshNode],
) -> Result<HostKeyOwners, FleetRequestError> {
    let condition = match nodes {
        _ if nodes.iter().all(|node| node.host_keys.is_empty()) => {
            return Ok(HostKeyOwners::default());
        }
        [node] => {
            let keys = node.host_keys.iter().map(SshHostKey::as_str);
            json!({ "$in": keys.collect::<Vec<_>>() })
        }
        // One list of all is less than a question for each.
        _ => json!({ "$exists": true }),
    };
    let query = json!({ HOST_KEYS_PATH: condition }).to_string();
    let filter = NodeFilter::default().with_query(&query).map_err(DirectoryError::Filter)?;
    Ok(HostKeyOwners::from_rows(&list_values(fleet, &filter, HOST_KEYS_PATH).await?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ssh::SshAddress;

    const KEYS: [&str; 2] = ["ssh-x AAAABXNzaC14AAAAAQc=", "ssh-x AAAABXNzaC14AAAAAQg="];

    fn row(node: &str, keys: Value) -> DirectoryNodeRow {
        let fields = BTreeMap::from([(HOST_KEYS_PATH.to_owned(), keys)]);
        DirectoryNodeRow { node: node.to_owned(), fields, ..DirectoryNodeRow::default() }
    }

    #[test]
    fn key_of_two_nodes_is_refused_for_both() {
        let rows = [
            row("web1", json!([KEYS[0]])),
            row("evil", json!([KEYS[1], KEYS[0], 7])),
            row("db1", json!("no list")),
        ];
        let owners = HostKeyOwners::from_rows(&rows);
        let check = |name: &str, keys: &[&str]| {
            let node = Identity::parse(name).unwrap();
            let host_keys = keys.iter().map(|key| SshHostKey::parse(key).unwrap()).collect();
            let node = SshNode { address: SshAddress::of_node(&node), node, host_keys };
            owners.check_node(&node).map_err(|error| error.other)
        };
        assert_eq!(check("web1", &KEYS[..1]), Err("evil".to_owned()));
        assert_eq!(check("evil", &KEYS[..]), Err("web1".to_owned()));
        assert_eq!(check("evil", &KEYS[1..]), Ok(()));
        assert_eq!(check("db1", &[]), Ok(()));
    }
}
