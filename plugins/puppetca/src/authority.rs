//! What every way to an authority can do, and what can go wrong on it.

use std::io;
use std::path::PathBuf;

use muster_api::ActionError;
use muster_api::system::SystemError;
use muster_api::system::error::error_chain;
use muster_secret::SecretFileError;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::name::CertName;

/// How it is with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CertState {
    /// It waits for a signature.
    Requested,
    /// It has a certificate.
    Signed,
    /// Its certificate was revoked.
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

/// What the authority tells of a name. Fields that it leaves out are empty.
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

/// A way to the authority. Every call blocks.
pub(crate) trait CertAuthority {
    /// The names in a state, or all of them.
    fn list_entries(&self, state: Option<CertState>) -> Result<Vec<CertEntry>, CaError>;

    /// What is known of a name; `None` when nothing is.
    fn find_entry(&self, name: &CertName) -> Result<Option<CertEntry>, CaError>;

    /// The request of a name, PEM, if it can be read this way.
    fn read_request(&self, name: &CertName) -> Result<Option<String>, CaError>;

    /// The certificate of a name, PEM, if it can be read this way.
    fn read_certificate(&self, name: &CertName) -> Result<Option<String>, CaError>;

    /// Signs what is requested. [`CaError::Conflict`] when nothing is, or the authority's own rules forbid it.
    fn sign_request(&self, name: &CertName, ttl: Option<u64>) -> Result<(), CaError>;

    /// Revokes what is signed. [`CaError::Conflict`] when nothing is.
    fn revoke_certificate(&self, name: &CertName) -> Result<(), CaError>;

    /// Removes request and certificate, without revoking. Nothing there is no error.
    fn delete_entry(&self, name: &CertName) -> Result<(), CaError>;
}

/// Why the authority did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CaError {
    /// No name of a certificate.
    #[error(
        "`{name}` is no name of a certificate: lower case letters, digits, `.`, `_` and `-`, at most 253"
    )]
    Name { name: String },
    /// The name is not known, or has no request.
    #[error(
        "the authority has no request of {name}: the node has to send it first (request_certificate)"
    )]
    NoRequest { name: CertName },
    /// The name is not known, or has no certificate.
    #[error("the authority has no certificate of {name}")]
    NoCertificate { name: CertName },
    /// The name was revoked and is still there.
    #[error("the certificate of {name} is revoked: clean the name before a new one is signed")]
    Revoked { name: CertName },
    /// The request is not the one that is meant.
    #[error(
        "the request of {name} is not the one that is meant: its {what} is {found}, asked for was {asked}. It was not signed"
    )]
    Mismatch {
        name: CertName,
        what: &'static str,
        found: String,
        asked: String,
    },
    /// The name has a certificate, and not that of the request that is meant.
    #[error(
        "{name} has a certificate already, and not for the request that is meant: {problem}. Clean the name first if it is to have a new one"
    )]
    OtherSigned { name: CertName, problem: String },
    /// What was signed was not what was looked at.
    #[error(
        "the certificate that {name} was given is not for the key that was looked at; it was revoked"
    )]
    Swapped { name: CertName },
    /// Neither fingerprint nor key to compare with.
    #[error(
        "give the fingerprint of the request of {name}, or the public key in it, as the node tells them: a name alone proves nothing"
    )]
    Unproven { name: CertName },
    /// The request asks for more than a name.
    #[error("the request of {name} asks for {what}, which is not signed here")]
    Greedy {
        name: CertName,
        what: String,
        rule: &'static str,
    },
    /// What the authority or a file holds is no request or certificate.
    #[error("what the authority holds for {name} cannot be read: {problem}")]
    Document { name: CertName, problem: String },
    /// The authority says that it is not so.
    #[error("the authority refuses: {text}")]
    Conflict { text: String },
    /// We may not.
    #[error(
        "the authority does not let us (403): {text}. The client certificate needs the extension pp_cli_auth, or a rule in auth.conf"
    )]
    Forbidden { text: String },
    /// Any other refusal.
    #[error("the authority at {place} refuses with {status}: {text}")]
    Refused {
        place: String,
        status: String,
        text: String,
    },
    /// No answer.
    #[error("the authority at {url} does not answer")]
    Http {
        url: String,
        #[source]
        source: Box<ureq::Error>,
    },
    /// The answer is none.
    #[error("the answer of the authority at {place} cannot be used")]
    Answer {
        place: String,
        #[source]
        source: serde_json::Error,
    },
    /// The address is none, or is not encrypted.
    #[error("url `{url}` in [plugins.puppetca] is not an address such as https://puppet:8140")]
    Url { url: String },
    /// A certificate or key cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// Our key cannot be read, or others could read it too.
    #[error(transparent)]
    Secret(#[from] SecretFileError),
    /// A certificate or key cannot be used.
    #[error("cannot use {}: {problem}", path.display())]
    Pem { path: PathBuf, problem: String },
    /// Of files and programs.
    #[error(transparent)]
    System(#[from] SystemError),
}

impl From<CaError> for ActionError {
    fn from(error: CaError) -> Self {
        let message = error_chain(&error);
        match error {
            CaError::Name { .. } => Self::invalid_input(message),
            CaError::Unproven { .. } => Self::missing_input(message),
            CaError::Greedy { rule, .. } => Self::denied_by_rule(message, rule),
            _ => Self::failed(message),
        }
    }
}
