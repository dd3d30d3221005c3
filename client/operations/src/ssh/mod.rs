//! OpenSSH for nodes of the fleet: addresses and host keys from the nodes' signed records, and the arguments of `ssh`, `scp` and `sftp`. Starts no process.
//!
//! A host name reaches the program only as one argument, after `--`, and only if it is a host name or an IP address. Host keys are pinned: the program gets a file with the
//! keys that the node itself has signed, and refuses any other. So no host key is trusted because it was seen first.

mod arguments;
mod certificate;
mod host;
mod host_keys;
mod key_owners;
mod proxy;

use std::path::PathBuf;

use muster_calls::DirectoryError;
use muster_client::{FleetConnection, FleetRequestError, read_content};
use muster_wire::identity::Identity;
use muster_wire::node_record::NodeContent;

pub use arguments::{SshArgumentError, SshProgram, config_text, program_arguments};
pub use certificate::{SshCertificateError, SshIdentity, prepare_ssh_identity};
pub use host::{SshAddress, SshAddressError};
pub use host_keys::{SshHostKey, SshHostKeyError};
pub use key_owners::{HostKeyOwners, SharedHostKeyError, read_host_key_owners};
pub use proxy::{SshProxy, SshProxyOptions};

/// Why it is not known how OpenSSH reaches a node.
#[derive(Debug, thiserror::Error)]
pub enum SshNodeError {
    /// The directory has no valid record of the node.
    #[error(transparent)]
    Record(#[from] FleetRequestError),
    /// The directory has no record of the node.
    #[error("no nodes matched: the directory knows no node `{0}`")]
    Unknown(Identity),
    /// A fact is no address of the node.
    #[error("{node} has no address in the fact {fact}: {source}")]
    Address {
        /// The node.
        node: Identity,
        /// The fact.
        fact: String,
        /// The reason.
        source: SshAddressError,
    },
    /// A host key is none.
    #[error("the record of {node} has an invalid ssh host key: {source}")]
    HostKey {
        /// The node.
        node: Identity,
        /// The reason.
        source: SshHostKeyError,
    },
    /// Another node has published the key, too.
    #[error(transparent)]
    Shared(#[from] SharedHostKeyError),
}

impl SshNodeError {
    /// Whether the reason is what this node has published, so that other nodes can be reached.
    pub fn is_of_node(&self) -> bool {
        match self {
            Self::Record(error) => error.is_record_unusable(),
            Self::Unknown(_) | Self::Address { .. } | Self::HostKey { .. } | Self::Shared(_) => {
                true
            }
        }
    }
}

/// A node and how OpenSSH reaches it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshTarget {
    /// The name; also the name of its keys in the file of host keys.
    pub node: Identity,
    /// Where it is.
    pub address: SshAddress,
    /// The file with its host keys; `None` if they are unknown, or are not to be pinned. OpenSSH then decides by its own files.
    pub known_hosts: Option<PathBuf>,
    /// The command that reaches it through the bus; `None` for a direct connection.
    pub proxy: Option<SshProxy>,
    /// The key and certificate of the caller; `None` if OpenSSH uses its own keys.
    pub identity: Option<SshIdentity>,
}

/// What the signed record of a node says about its sshd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshNode {
    /// The name.
    pub node: Identity,
    /// Where it is.
    pub address: SshAddress,
    /// Public host keys.
    pub host_keys: Vec<SshHostKey>,
}

/// How addresses are found, and which nodes have keys.
#[derive(Debug, Clone, Copy, Default)]
pub struct SshOptions<'a> {
    /// The fact with the address; the name of the node without one.
    pub address_fact: Option<&'a str>,
    /// Do not read host keys.
    pub without_keys: bool,
}

/// Reads what OpenSSH needs from the node's signed record in the directory. Where no directory answers, and without an address fact, a node is
/// reached by its name, and has no keys.
pub async fn read_ssh_node(
    fleet: &FleetConnection,
    node: &Identity,
    options: SshOptions<'_>,
) -> Result<SshNode, SshNodeError> {
    if options.without_keys && options.address_fact.is_none() {
        return Ok(SshNode::named(node));
    }
    let content = match read_content(fleet, node).await {
        Err(FleetRequestError::Directory(DirectoryError::Invalid(_))) => {
            return Err(SshNodeError::Unknown(node.clone()));
        }
        Err(FleetRequestError::Directory(_)) if options.address_fact.is_none() => {
            return Ok(SshNode::named(node));
        }
        content => content?,
    };
    SshNode::from_content(node, &content, options)
}

impl SshNode {
    /// A node that is reached by its name.
    fn named(node: &Identity) -> Self {
        Self { node: node.clone(), address: SshAddress::of_node(node), host_keys: Vec::new() }
    }

    fn from_content(
        node: &Identity,
        content: &NodeContent,
        options: SshOptions<'_>,
    ) -> Result<Self, SshNodeError> {
        let address = match options.address_fact {
            None => SshAddress::of_node(node),
            Some(fact) => {
                let value = content.facts.get(fact);
                SshAddress::from_fact(value).map_err(|source| SshNodeError::Address {
                    node: node.clone(),
                    fact: fact.to_owned(),
                    source,
                })?
            }
        };
        let texts = if options.without_keys { Vec::new() } else { content.ssh_host_keys() };
        let keys = texts.iter().map(|text| SshHostKey::parse(text)).collect::<Result<_, _>>();
        let host_keys =
            keys.map_err(|source| SshNodeError::HostKey { node: node.clone(), source })?;
        Ok(Self { node: node.clone(), address, host_keys })
    }

    /// The file of host keys, as `UserKnownHostsFile` names it: the keys under the name of the node.
    pub fn known_hosts_text(&self) -> String {
        let lines = self.host_keys.iter().map(|key| format!("{} {key}\n", self.node));
        lines.collect::<Vec<_>>().concat()
    }

    /// The target, with this file of host keys, reached in this way, and with this identity.
    pub fn into_target(
        self,
        known_hosts: Option<PathBuf>,
        proxy: Option<SshProxy>,
        identity: Option<SshIdentity>,
    ) -> SshTarget {
        SshTarget { node: self.node, address: self.address, known_hosts, proxy, identity }
    }
}
