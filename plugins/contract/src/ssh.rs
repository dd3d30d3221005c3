//! The agents `ssh`, which decides logins with certificates, and `ssh_ca`, which signs certificates.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The agent that decides logins; also the name of its policy.
pub const SSH_AGENT: &str = "ssh";
/// The action that a login needs.
pub const LOGIN_ACTION: &str = "login";
/// The agent that signs certificates.
pub const SSH_CA_AGENT: &str = "ssh_ca";
/// The action that signs a certificate.
pub const SIGN_ACTION: &str = "sign";
/// Default path of the socket on which the daemon decides logins.
pub const LOGIN_SOCKET_PATH: &str = "/run/muster/logins.sock";

/// Inputs of `login`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SshLoginInput {
    /// The user of the machine.
    pub user: String,
}

/// Outputs of `login`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SshLoginOutput {
    /// The user of the machine.
    pub user: String,
    /// The principal that a certificate must have: the name of the caller.
    pub principal: String,
}

/// Inputs of `sign`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SshSignInput {
    /// The public key, a line of a `.pub` file.
    pub public_key: String,
    /// How long the certificate is to be valid, in seconds; absent: the service's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime: Option<u64>,
}

/// Outputs of `sign`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SshSignOutput {
    /// The certificate, a line of a `-cert.pub` file.
    pub certificate: String,
    /// Its key id.
    pub key_id: String,
    /// Its serial number, in decimal.
    pub serial: String,
    /// When it expires, RFC 3339.
    pub valid_until: String,
}
