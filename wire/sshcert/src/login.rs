//! The query of `rpcd ssh-principals` to the daemon of the same machine, and its answer: one message of bounded size each way.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::MAX_CERTIFICATE_BYTES;

/// Largest query and answer, in bytes.
pub const MAX_LOGIN_MESSAGE_BYTES: usize = MAX_CERTIFICATE_BYTES + 4096;

/// Longest name of a user, in bytes: that of `useradd`.
const MAX_USER_NAME_BYTES: usize = 32;

/// Asks whether the holder of this certificate may log in as this user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoginQuery {
    /// The user of the machine.
    pub user: String,
    /// The certificate in base64.
    pub certificate: String,
    /// The address that the connection comes from, if sshd says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<IpAddr>,
}

/// The decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoginAnswer {
    /// This principal of the certificate is accepted.
    Principal(String),
    /// The login is refused for this reason.
    Refused(String),
}

/// Whether the text can be the name of a user, and the value of a condition of a policy.
pub fn is_user_name(text: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "._-$@\\".contains(c);
    (1..=MAX_USER_NAME_BYTES).contains(&text.len())
        && !text.starts_with('-')
        && text.chars().all(is_allowed)
}
