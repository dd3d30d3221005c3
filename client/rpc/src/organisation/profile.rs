//! Reads and writes `organisation.toml`, the public description of an organisation.

use muster_wire::identity::SubjectName;
use muster_wire::token::PublicKey;
use serde::{Deserialize, Serialize};

use super::OrganisationError;

/// Comment at the head of the file that explains the directory.
const PROFILE_HEADER: &str = "\
# An organisation of Muster. This file holds nothing secret; the directory does: keep it like a safe, and keep a copy.
#
#   organisation.toml   this file
#   operator.jwt        who the organisation is, signed by itself
#   account.jwt         the fleet: its roles and revocations, signed by the operator; every node and client has a copy
#   newcomers.jwt       the account of machines that are nobody yet, signed by the operator
#   system.jwt          the broker's own account, signed by the operator
#   ca.pem              the TLS authority that signed the broker's certificate; every node and client has a copy
#   issued.jsonl        everybody who was ever given credentials, one JSON object a line
#   broker/             the broker's configuration and certificate: all that the broker's host needs
#
# Secret, readable by the owner only:
#
#   keys/operator.nk    the root of all trust; can be kept offline once all is set up, except for revocations
#   keys/account.nk, keys/system.nk, keys/newcomers.nk
#   keys/role-*.nk      sign the credentials of nodes, callers (users), services, of the system account's users, of
#                       newcomers (bootstrap tokens) and of who lets them in (enrollers)
#   keys/ca.key         signs the broker's certificate
#   creds/              the credentials that were issued, until they are taken to where they are used
#   broker/broker.key   the key of the broker's certificate

";

/// What is public about an organisation.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct OrganisationProfile {
    /// For people.
    pub name: String,
    /// First parts of subjects; the first is the main one.
    pub collectives: Vec<SubjectName>,
    /// Public key of the operator.
    pub operator: PublicKey,
    /// Public key of the fleet's account.
    pub account: PublicKey,
    /// Public key of the system account.
    pub system_account: PublicKey,
    /// Public key of the account for machines that are nobody yet; organisations of before have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newcomers_account: Option<PublicKey>,
    /// Where the broker is.
    pub broker: BrokerProfile,
}

/// Where the broker is.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BrokerProfile {
    /// Addresses for nodes and clients.
    pub urls: Vec<String>,
    /// Port that it listens on; -1 is any that is free.
    pub port: i32,
    /// Whether it speaks TLS. If not, it listens on loopback only.
    pub tls: bool,
}

impl OrganisationProfile {
    /// Parses the file's text.
    pub fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// Serializes the description to the file's text.
    pub fn to_toml(&self) -> Result<String, OrganisationError> {
        let body = toml::to_string(self).map_err(|error| OrganisationError::Format {
            what: "the organisation's description",
            source: error.into(),
        })?;
        Ok(format!("{PROFILE_HEADER}{body}"))
    }

    /// The default collective of clients.
    pub fn main_collective(&self) -> &str {
        self.collectives
            .first()
            .map_or("muster", SubjectName::as_str)
    }
}

/// Whether a text is valid as an organisation's name.
pub fn is_valid_name(name: &str) -> bool {
    let belongs = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '.' | '_' | '-');
    !name.trim().is_empty() && name.chars().count() <= 64 && name.chars().all(belongs)
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
