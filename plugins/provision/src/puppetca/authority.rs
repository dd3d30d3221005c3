//! The interface of a certificate authority, implemented over HTTP and over the command line, and its errors.

use std::io;
use std::path::PathBuf;

use muster_api::ActionError;
use muster_api::base::error_chain;
use muster_api::system::SystemError;
use muster_files::SecretFileError;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::puppetca::name::CertName;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CertState {
    /// A request waits for a signature.
    Requested,
    Signed,
    Revoked,
}

impl CertState {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::Signed => "signed",
            Self::Revoked => "revoked",
        }
    }
}

/// Fields that the authority omits are empty.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct CertEntry {
    pub(crate) name: String,
    pub(crate) state: CertState,
    #[serde(default)]
    pub(crate) fingerprint: String,
    #[serde(default)]
    pub(crate) fingerprints: Map<String, Value>,
    #[serde(default)]
    pub(crate) dns_alt_names: Vec<String>,
    #[serde(default)]
    pub(crate) subject_alt_names: Vec<String>,
    #[serde(default)]
    pub(crate) authorization_extensions: Map<String, Value>,
    #[serde(default)]
    pub(crate) serial_number: Option<Value>,
    #[serde(default)]
    pub(crate) not_before: Option<String>,
    #[serde(default)]
    pub(crate) not_after: Option<String>,
}

impl CertEntry {
    /// SHA-256 of the certificate, or of the request.
    pub(crate) fn sha256_fingerprint(&self) -> &str {
        let named = self.fingerprints.get("SHA256").and_then(Value::as_str);
        named.unwrap_or(&self.fingerprint)
    }
}

/// Every call blocks.
pub(crate) trait CertAuthority {
    /// The names in a state, or all of them.
    fn list_entries(&self, state: Option<CertState>) -> Result<Vec<CertEntry>, CaError>;

    /// The entry of a name; `None` if there is none.
    fn find_entry(&self, name: &CertName) -> Result<Option<CertEntry>, CaError>;

    /// The request of a name in PEM form, if this backend can read it.
    fn read_request(&self, name: &CertName) -> Result<Option<String>, CaError>;

    /// The certificate of a name in PEM form, if this backend can read it.
    fn read_certificate(&self, name: &CertName) -> Result<Option<String>, CaError>;

    /// Signs the pending request. Returns [`CaError::Conflict`] if there is none, or if the authority's own rules forbid it.
    fn sign_request(&self, name: &CertName, ttl: Option<u64>) -> Result<(), CaError>;

    /// Returns [`CaError::Conflict`] if there is no certificate.
    fn revoke_certificate(&self, name: &CertName) -> Result<(), CaError>;

    /// Deletes request and certificate without revoking. A missing entry is not an error.
    fn delete_entry(&self, name: &CertName) -> Result<(), CaError>;
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum CaError {
    #[error(
        "`{name}` is not a certificate name; use at most 253 of a-z, 0-9, `.`, `_` and `-`, without `..` and without a leading `.` or `-`"
    )]
    Name { name: String },
    /// The name is unknown, or has no request.
    #[error(
        "the CA has no request of {name}; call `request_certificate` of the agent `provision` on the node first"
    )]
    NoRequest { name: CertName },
    /// The name is unknown, or has no certificate.
    #[error("the CA has no certificate of {name}")]
    NoCertificate { name: CertName },
    /// The certificate is revoked and its entry still exists.
    #[error("the certificate of {name} is revoked; clean the name before you sign a new request")]
    Revoked { name: CertName },
    #[error(
        "the request of {name} was not signed: its {item} is {found}, but the caller gave {expected}"
    )]
    Mismatch { name: CertName, item: &'static str, found: String, expected: String },
    #[error(
        "{name} already has a certificate for another request: {problem}; clean the name before you sign a new request"
    )]
    OtherSigned { name: CertName, problem: String },
    /// The signed certificate has another public key than the request that was checked. It was revoked.
    #[error(
        "the certificate of {name} was revoked: the request was replaced before it was signed, so its key was not checked"
    )]
    RequestReplaced { name: CertName },
    /// The caller gave neither fingerprint nor public key to compare with.
    #[error(
        "give the `fingerprint` or the `public_key` of the request of {name}, as the node reports them; a name alone does not identify a request"
    )]
    Unproven { name: CertName },
    #[error("the request of {name} asks for {item}, which `{rule}` does not allow")]
    Disallowed { name: CertName, item: String, rule: &'static str },
    /// The authority's data or a file is not a valid request or certificate.
    #[error("cannot use the CA's data for {name}: {problem}")]
    Document { name: CertName, problem: String },
    #[error("the CA rejected the operation: {text}")]
    Conflict { text: String },
    #[error(
        "the CA denied access (403): {text}; the client certificate needs the extension `pp_cli_auth` or a rule in auth.conf"
    )]
    Forbidden { text: String },
    /// Any other error response.
    #[error("the request to the CA at {endpoint} failed with {status}: {text}")]
    Refused { endpoint: String, status: String, text: String },
    #[error("no valid response from the CA at {url}")]
    Http {
        url: String,
        #[source]
        source: Box<ureq::Error>,
    },
    /// The response cannot be read or parsed.
    #[error("cannot parse the response of the CA at {endpoint}")]
    Answer {
        endpoint: String,
        #[source]
        source: serde_json::Error,
    },
    #[error(
        "`url` in [plugins.puppetca] is `{url}`; use the form `https://HOST[:PORT]`, such as https://puppet:8140"
    )]
    Url { url: String },
    #[error("cannot read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The key file cannot be read, or is readable by other users.
    #[error(transparent)]
    Secret(#[from] SecretFileError),
    #[error("cannot use {}: {problem}", path.display())]
    Pem { path: PathBuf, problem: String },
    #[error(transparent)]
    System(#[from] SystemError),
}

impl From<CaError> for ActionError {
    fn from(error: CaError) -> Self {
        let message = error_chain(&error);
        match error {
            CaError::Name { .. } => Self::invalid_input(message),
            CaError::Unproven { .. } => Self::missing_input(message),
            CaError::Disallowed { rule, .. } => Self::denied_by_rule(message, rule),
            _ => Self::failed(message),
        }
    }
}
