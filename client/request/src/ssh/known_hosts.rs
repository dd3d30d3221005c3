//! The file of host keys, as `UserKnownHostsFile` names it.

use muster_wire::identity::Identity;

use super::SshNode;

/// Longest key in bytes, in base64: 16,384 bits of RSA have 2,740.
const MAX_KEY_BYTES: usize = 8 * 1024;

/// A host key is not of the form that a file of host keys has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the record of {node} has an invalid ssh host key: {key:?}")]
pub struct KnownHostsError {
    /// The node.
    pub node: String,
    /// The start of the key.
    pub key: String,
}

/// The lines for these nodes, under their names.
pub fn known_hosts_text(nodes: &[SshNode]) -> Result<String, KnownHostsError> {
    let keys = nodes.iter().flat_map(|node| node.host_keys.iter().map(|key| (&node.node, key)));
    let line = |(node, key): (&Identity, &String)| {
        if is_host_key(key) {
            return Ok(format!("{node} {key}\n"));
        }
        let key = key.chars().take(60).collect();
        Err(KnownHostsError { node: node.to_string(), key })
    };
    keys.map(line).collect()
}

/// A type and a key in base64, and nothing else: no marker such as `@cert-authority`, no further line.
fn is_host_key(text: &str) -> bool {
    let Some((kind, key)) = text.split_once(' ') else { return false };
    let is_kind = kind.starts_with(|c: char| c.is_ascii_lowercase())
        && kind
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-@.".contains(&b));
    let is_key = (1..=MAX_KEY_BYTES).contains(&key.len())
        && key.bytes().all(|b| b.is_ascii_alphanumeric() || b"+/=".contains(&b));
    is_kind && is_key
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ssh::SshAddress;

    fn node(keys: &[&str]) -> SshNode {
        let node = Identity::parse("db1.acme.net").unwrap();
        let host_keys = keys.iter().map(|&key| key.to_owned()).collect();
        SshNode { address: SshAddress::of_node(&node), node, host_keys }
    }

    #[test]
    fn each_key_is_a_line_with_the_name_of_the_node() {
        let nodes = [node(&["ssh-ed25519 AAAA", "ecdsa-sha2-nistp256 BB+/=="]), node(&[])];
        let expected = "db1.acme.net ssh-ed25519 AAAA\ndb1.acme.net ecdsa-sha2-nistp256 BB+/==\n";
        assert_eq!(known_hosts_text(&nodes).unwrap(), expected);
    }

    /// A node signs its own keys; it must not add keys for other hosts.
    #[test]
    fn keys_that_would_be_other_lines_are_refused() {
        for key in [
            "ssh-ed25519 AAAA\nweb1.acme.net ssh-ed25519 BBBB",
            "ssh-ed25519 AAAA comment",
            "@cert-authority ssh-ed25519 AAAA",
            "* ssh-ed25519",
            "ssh-ed25519",
            "ssh-ed25519 ",
            "",
            "ssh-ed25519\tAAAA",
        ] {
            assert!(known_hosts_text(&[node(&[key])]).is_err(), "{key:?}");
        }
    }
}
