//! The agent `puppetca`: the certificate authority on a master.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Inputs of `status`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CertNameInput {
    /// The name of the certificate.
    pub certname: String,
}

/// Inputs of `revoke` and `clean`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CertChangeInput {
    /// The name of the certificate.
    pub certname: String,
    /// Whether to report what would change, and change nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noop: Option<bool>,
}

/// Inputs of `sign`; the request is signed only if it matches the fingerprint or the key.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct PuppetcaSignInput {
    /// The name of the certificate.
    pub certname: String,
    /// SHA-256 of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// SHA-256 of the public key in the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_key: Option<String>,
    /// Lifetime of the certificate, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<u64>,
    /// Whether to check the request only, and sign nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noop: Option<bool>,
}

/// Outputs of `sign`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PuppetcaSignOutput {
    /// Whether the request was signed now; else it had been signed before.
    pub changed: bool,
    /// `signed` or `already signed`.
    pub message: String,
    /// The name of the certificate.
    pub certname: String,
    /// SHA-256 of the certificate.
    pub fingerprint: String,
    /// SHA-256 of its public key.
    pub public_key: String,
    /// Serial number, in hexadecimal digits.
    pub serial: String,
    /// When it expires, in seconds since 1970.
    pub not_after: i64,
}

/// Outputs of `clean`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PuppetcaCleanOutput {
    /// The name of the certificate.
    pub certname: String,
    /// Whether the authority knew the name.
    pub found: bool,
    /// Whether an entry was removed.
    pub changed: bool,
    /// Whether a certificate was revoked.
    pub revoked: bool,
    /// Serial number of that certificate, in hexadecimal digits.
    pub serial: String,
    /// The result as a sentence.
    pub message: String,
}
