//! Reads and writes `organisation.toml`, the public description of an organisation.

use muster_wire::identity::{Identity, SubjectName};
use muster_wire::token::PublicKey;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::OrganisationError;

/// Comment at the head of the file that explains the directory.
const PROFILE_HEADER: &str = "\
# An organisation of Muster. This file contains no secrets, but the directory does: protect it, and keep a backup.
#
#   organisation.toml   this file
#   operator.jwt        operator token, self-signed
#   account.jwt         fleet account: roles and revocations, signed by the operator; every node and client has a copy
#   storage.jwt         account of the fleet's stores, signed by the operator
#   newcomers.jwt       account of machines that are not enrolled yet, signed by the operator
#   system.jwt          system account of the broker, signed by the operator
#   ca.pem              certificate of the TLS authority that signed the broker's certificate; every node and client has a copy
#   issued.jsonl        all credentials that were ever issued, one JSON object per line
#   broker/             configuration and certificate of the broker: all files that its host needs
#
# Secret, readable by the owner only:
#
#   keys/operator.nk    root of trust; can be kept offline after the setup, except for revocations and rotations
#   keys/account.nk, keys/storage.nk, keys/system.nk, keys/newcomers.nk   identities of the accounts; no command needs them: keep them offline
#   keys/role-*.nk      sign the credentials of nodes, callers (users), services, administrators, users of the system
#                       account, newcomers (bootstrap tokens) and enrollers
#   keys/role-leaf.nk, keys/routes.password   exist if there are leaf nodes, and a cluster
#   keys/ca.key         signs the broker's certificate
#   keys/*.next, keys/ca.next.pem   exist while a key is being replaced (`rpc org rotate`)
#   creds/              issued credentials, until they are moved to their destination
#   broker/broker.key   secret key of the broker's certificate

";

/// Public description of an organisation.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OrganisationProfile {
    /// Display name.
    pub name: String,
    /// Collectives, the first tokens of subjects; the first one is the main collective.
    pub collectives: Vec<SubjectName>,
    /// Public key of the operator.
    pub operator: PublicKey,
    /// Public key of the fleet's account.
    pub account: PublicKey,
    /// Public key of the account of the stores; absent in organisations of earlier versions, whose stores are in the fleet's account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_account: Option<PublicKey>,
    /// Public key of the system account.
    pub system_account: PublicKey,
    /// Public key of the bootstrap account; absent in organisations of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newcomers_account: Option<PublicKey>,
    /// Addresses and settings of the broker.
    pub broker: BrokerProfile,
}

/// Addresses and settings of the broker.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BrokerProfile {
    /// Addresses for nodes and clients.
    pub urls: Vec<String>,
    /// Port that it listens on; -1 selects a free port.
    pub port: i32,
    /// Whether it uses TLS. If not, it listens on the loopback address only.
    pub tls: bool,
    /// Leaf nodes: servers at other sites that connect to the broker.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leafs: Vec<LeafProfile>,
}

/// A leaf node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LeafProfile {
    /// Its name, as in the list of issued credentials.
    pub name: Identity,
    /// Its addresses for nodes and clients.
    pub urls: Vec<String>,
}

impl LeafProfile {
    /// The port of its addresses.
    pub fn port(&self) -> Option<u16> {
        self.urls.first()?.rsplit_once(':')?.1.parse().ok()
    }
}

impl OrganisationProfile {
    /// Serializes the description to the file's text.
    pub fn to_toml(&self) -> Result<String, OrganisationError> {
        let body = toml::to_string(self).map_err(|error| {
            OrganisationError::Format("the organisation's description", error.into())
        })?;
        Ok(format!("{PROFILE_HEADER}{body}"))
    }

    /// The default collective of clients.
    pub fn main_collective(&self) -> &str {
        self.collectives.first().map_or("muster", SubjectName::as_str)
    }
}

/// Whether a text is valid as an organisation's name.
pub(crate) fn is_valid_name(name: &str) -> bool {
    let is_allowed = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '.' | '_' | '-');
    !name.trim().is_empty() && name.chars().count() <= 64 && name.chars().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::is_valid_name;

    #[test]
    fn names_are_short_and_printable() {
        for good in ["acme", "Acme Inc.", "Grüße_1"] {
            assert!(is_valid_name(good), "{good}");
        }
        for bad in ["", "  ", "a\nb", "a\"b", "a/b", &"x".repeat(65)] {
            assert!(!is_valid_name(bad), "{bad}");
        }
    }
}
