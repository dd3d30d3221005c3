//! The agent `puppetca`: the certificate authority on a master.

use muster_ddl::{Action, ActionList, ActionProperties, AgentContract};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The name of a certificate.
const CERTNAME_PATTERN: &str = "^[a-z0-9_][a-z0-9._-]*$";
/// A SHA-256 in hexadecimal digits, with or without colons.
const SHA256_PATTERN: &str = "^[0-9A-Fa-f]{2}(:?[0-9A-Fa-f]{2}){31}$";

/// Signs, revokes and lists certificates of a Puppet authority.
#[derive(Debug, JsonSchema)]
pub struct PuppetcaAgent;

impl AgentContract for PuppetcaAgent {
    const NAME: &'static str = "puppetca";
    const TIMEOUT: u64 = 60;

    fn list_actions(list: &mut impl ActionList) {
        list.add::<PuppetcaList>()
            .add::<PuppetcaStatus>()
            .add::<PuppetcaSign>()
            .add::<PuppetcaRevoke>()
            .add::<PuppetcaClean>();
    }
}

/// List the names in the authority.
#[derive(Debug, JsonSchema)]
pub struct PuppetcaList;

impl Action for PuppetcaList {
    type Agent = PuppetcaAgent;
    const NAME: &'static str = "list";
    type Input = PuppetcaListInput;
    type Output = PuppetcaListOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().examples(include_str!("puppetca/list.json"))
    }
}

/// Inputs of `list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PuppetcaListInput {
    /// Only names in this state.
    #[schemars(extend("x-default" = "all"))]
    pub state: CertStateFilter,
}

/// The states of names that `list` reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CertStateFilter {
    /// Every state.
    All,
    /// A request waits for a signature.
    Requested,
    /// The certificate is valid.
    Signed,
    /// The certificate is revoked.
    Revoked,
}

/// Outputs of `list`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PuppetcaListOutput {
    /// Names that wait for a signature, sorted; at most 5000.
    pub requests: Vec<String>,
    /// Names with a valid certificate, sorted; at most 5000.
    pub signed: Vec<String>,
    /// Names with a revoked certificate, sorted; at most 5000.
    pub revoked: Vec<String>,
    /// Total number of names in the requested state.
    pub count: usize,
}

/// Report the state of a name in the authority.
#[derive(Debug, JsonSchema)]
pub struct PuppetcaStatus;

impl Action for PuppetcaStatus {
    type Agent = PuppetcaAgent;
    const NAME: &'static str = "status";
    type Input = CertNameInput;
    type Output = PuppetcaStatusOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().summary("state").examples(include_str!("puppetca/status.json"))
    }
}

/// Inputs of `status`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CertNameInput {
    /// Name of the certificate, in lower case.
    #[schemars(length(max = 253), regex(pattern = CERTNAME_PATTERN))]
    pub certname: String,
}

/// Outputs of `status`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PuppetcaStatusOutput {
    /// The name.
    pub certname: String,
    /// What the authority has for the name.
    #[serde(flatten)]
    pub details: CertDetails,
}

/// The certificate of a name, or the request for one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CertDetails {
    /// `requested`, `signed`, `revoked`, or `absent` for an unknown name.
    pub state: String,
    /// SHA-256 of the certificate, or of the request if there is no certificate; empty if absent.
    pub fingerprint: String,
    /// SHA-256 of the public key; empty if it is unknown.
    pub public_key: String,
    /// Serial number in hexadecimal; empty without a certificate.
    pub serial: String,
    /// Start of validity, in seconds since the epoch; 0 without a certificate.
    #[schemars(title = "Begins")]
    pub not_before: i64,
    /// Expiry, in seconds since the epoch; 0 without a certificate.
    #[schemars(title = "Ends")]
    pub not_after: i64,
    /// Its alternative names, as the authority writes them.
    #[schemars(title = "Other Names")]
    pub dns_alt_names: Vec<String>,
    /// Authorization extensions, by name.
    #[schemars(title = "Authorisations")]
    pub authorization_extensions: Map<String, Value>,
}

/// Sign the request of a name, if it matches the given fingerprint and public key; at least one is required.
#[derive(Debug, JsonSchema)]
pub struct PuppetcaSign;

impl Action for PuppetcaSign {
    type Agent = PuppetcaAgent;
    const NAME: &'static str = "sign";
    type Input = PuppetcaSignInput;
    type Output = PuppetcaSignOutput;

    fn properties() -> ActionProperties {
        ActionProperties::root_equivalent()
            .idempotent()
            .change_summary()
            .examples(include_str!("puppetca/sign.json"))
    }
}

/// Inputs of `sign`; the request is signed only if it matches the fingerprint or the key.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct PuppetcaSignInput {
    /// Name of the certificate, in lower case.
    #[schemars(length(max = 253), regex(pattern = CERTNAME_PATTERN))]
    pub certname: String,
    /// Expected SHA-256 of the request; a different request is not signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 95), regex(pattern = SHA256_PATTERN))]
    pub fingerprint: Option<String>,
    /// Expected SHA-256 of the public key; a request with a different key is not signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 95), regex(pattern = SHA256_PATTERN))]
    pub public_key: Option<String>,
    /// Validity of the certificate in seconds; default: that of the authority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Lifetime")]
    pub ttl: Option<u64>,
    /// Report what would change, but change nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noop: Option<bool>,
}

/// Outputs of `sign`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PuppetcaSignOutput {
    /// Whether anything changed, or would change.
    pub changed: bool,
    /// `signed`, `already signed` or `would be signed`.
    pub message: String,
    /// The name.
    pub certname: String,
    /// SHA-256 of the certificate, or of the request if there is no certificate; empty if absent.
    pub fingerprint: String,
    /// SHA-256 of the public key; empty if it is unknown.
    pub public_key: String,
    /// Serial number in hexadecimal; empty without a certificate.
    pub serial: String,
    /// Expiry, in seconds since the epoch; 0 without a certificate.
    #[schemars(title = "Ends")]
    pub not_after: i64,
}

/// Revoke the certificate of a name; the name remains in the authority.
#[derive(Debug, JsonSchema)]
pub struct PuppetcaRevoke;

impl Action for PuppetcaRevoke {
    type Agent = PuppetcaAgent;
    const NAME: &'static str = "revoke";
    type Input = CertChangeInput;
    type Output = PuppetcaRevokeOutput;

    fn properties() -> ActionProperties {
        ActionProperties::root_equivalent()
            .idempotent()
            .change_summary()
            .examples(include_str!("puppetca/revoke.json"))
    }
}

/// Inputs of `revoke` and `clean`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CertChangeInput {
    /// Name of the certificate, in lower case.
    #[schemars(length(max = 253), regex(pattern = CERTNAME_PATTERN))]
    pub certname: String,
    /// Report what would change, but change nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noop: Option<bool>,
}

/// Outputs of `revoke`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PuppetcaRevokeOutput {
    /// The name.
    pub certname: String,
    /// Whether anything changed, or would change.
    pub changed: bool,
    /// Serial number in hexadecimal; empty without a certificate.
    pub serial: String,
}

/// Revoke and remove the certificate and the request of a name; succeeds for an unknown name.
#[derive(Debug, JsonSchema)]
pub struct PuppetcaClean;

impl Action for PuppetcaClean {
    type Agent = PuppetcaAgent;
    const NAME: &'static str = "clean";
    type Input = CertChangeInput;
    type Output = PuppetcaCleanOutput;

    fn properties() -> ActionProperties {
        ActionProperties::root_equivalent()
            .idempotent()
            .change_summary()
            .examples(include_str!("puppetca/clean.json"))
    }
}

/// Outputs of `clean`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PuppetcaCleanOutput {
    /// The name.
    pub certname: String,
    /// Whether the authority had the name.
    pub found: bool,
    /// Whether anything changed, or would change.
    pub changed: bool,
    /// Whether this call revoked a certificate.
    pub revoked: bool,
    /// Serial number in hexadecimal; empty without a certificate.
    pub serial: String,
    /// Description of what was done.
    pub message: String,
}
