//! Certificates and runs of Puppet: `has_cert`, `request_certificate`, `bootstrap_puppet`, `run_puppet` and `daemonize_puppet`.

use muster_ddl::{Action, ActionProperties, EmptyInput};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{HOST_PATTERN, ProvisionAgent};
use crate::puppet::PuppetRunClass;

/// The name of an environment.
const ENVIRONMENT_PATTERN: &str = "^[a-z0-9_]+$";

/// Check Puppet's certificate: whether the authority on the node signed it, it matches the node's key, and it is valid now.
#[derive(Debug, JsonSchema)]
pub struct ProvisionHasCert;

impl Action for ProvisionHasCert {
    type Agent = ProvisionAgent;
    const NAME: &'static str = "has_cert";
    type Input = EmptyInput;
    type Output = HasCertOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read()
            .timeout(60)
            .summary("has_cert")
            .examples(include_str!("has_cert.json"))
    }
}

/// Outputs of `has_cert`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HasCertOutput {
    /// Whether the certificate is valid.
    #[schemars(title = "Has Certificate")]
    pub has_cert: bool,
    /// The reason if it is not valid, else empty.
    pub problem: String,
    /// The certificate's name.
    pub certname: String,
    /// SHA-256 of the certificate; empty if there is none.
    pub fingerprint: String,
    /// SHA-256 of its public key; empty if there is none.
    pub public_key: String,
    /// Its serial number in hexadecimal; empty if there is none.
    pub serial: String,
    /// Expiry of the certificate, in seconds since the epoch; 0 if there is none.
    #[schemars(title = "Ends")]
    pub not_after: i64,
}

/// State of a certificate request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CertificateRequestState {
    /// It was sent to the authority.
    Submitted,
    /// The authority already has a request of this name.
    Pending,
    /// The authority has signed it at once.
    Signed,
    /// Not given, or a state of a later version.
    #[default]
    #[serde(other)]
    Unknown,
}

/// Create Puppet's key if there is none, and submit a certificate request to the authority. The signed reply proves that the request belongs to this node.
#[derive(Debug, JsonSchema)]
pub struct ProvisionRequestCertificate;

impl Action for ProvisionRequestCertificate {
    type Agent = ProvisionAgent;
    const NAME: &'static str = "request_certificate";
    type Input = RequestCertificateInput;
    type Output = RequestCertificateOutput;

    fn properties() -> ActionProperties {
        ActionProperties::root_equivalent()
            .idempotent()
            .timeout(360)
            .summary("state")
            .examples(include_str!("request_certificate.json"))
    }
}

/// Inputs of `request_certificate`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RequestCertificateInput {
    /// Remove the previous certificate, authority and revocation list first; the key is kept.
    #[schemars(extend("x-default" = false))]
    pub fresh: bool,
    /// The Puppet server; default: the configured one.
    #[schemars(length(max = 253), regex(pattern = HOST_PATTERN))]
    pub server: Option<String>,
    /// The server's port; default: the configured one.
    pub port: Option<u64>,
    /// The fence number of the caller's lock; a lower number than the highest that the node has seen is refused.
    pub fence: Option<u64>,
}

/// Outputs of `request_certificate`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RequestCertificateOutput {
    /// `submitted`, `pending` (the authority already has a request of this name) or `signed` (the authority signs automatically).
    #[schemars(with = "String")]
    pub state: CertificateRequestState,
    /// The requested name.
    pub certname: String,
    /// SHA-256 of the request; empty if it was signed immediately.
    pub fingerprint: String,
    /// SHA-256 of the public key in it.
    pub public_key: String,
    /// The request in PEM format; empty if it was signed immediately.
    #[schemars(title = "Request")]
    pub csr: String,
    /// The last part of Puppet's output.
    pub output: String,
}

/// Run Puppet once in the environment that prepares the node for its final environment.
#[derive(Debug, JsonSchema)]
pub struct ProvisionBootstrapPuppet;

impl Action for ProvisionBootstrapPuppet {
    type Agent = ProvisionAgent;
    const NAME: &'static str = "bootstrap_puppet";
    type Input = RunPuppetInput;
    type Output = RunPuppetOutput;

    fn properties() -> ActionProperties {
        ActionProperties::root_equivalent()
            .timeout(3600)
            .streams()
            .summary("class")
            .examples(include_str!("bootstrap_puppet.json"))
    }
}

/// Inputs of `bootstrap_puppet` and `run_puppet`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunPuppetInput {
    /// The environment; default: the one configured for this step.
    #[schemars(length(max = 64), regex(pattern = ENVIRONMENT_PATTERN))]
    pub environment: Option<String>,
    /// The Puppet server; default: the configured one.
    #[schemars(length(max = 253), regex(pattern = HOST_PATTERN))]
    pub server: Option<String>,
    /// The server's port; default: the configured one.
    pub port: Option<u64>,
    /// The fence number of the caller's lock; a lower number than the highest that the node has seen is refused.
    pub fence: Option<u64>,
}

/// Run Puppet once; fails if the run failed or did not take place.
#[derive(Debug, JsonSchema)]
pub struct ProvisionRunPuppet;

impl Action for ProvisionRunPuppet {
    type Agent = ProvisionAgent;
    const NAME: &'static str = "run_puppet";
    type Input = RunPuppetInput;
    type Output = RunPuppetOutput;

    fn properties() -> ActionProperties {
        ActionProperties::root_equivalent()
            .timeout(3600)
            .streams()
            .summary("class")
            .describe_input("environment", "The environment; default: the server's choice")
            .examples(include_str!("run_puppet.json"))
    }
}

/// Outputs of `bootstrap_puppet` and `run_puppet`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RunPuppetOutput {
    /// `clean`, `changed`, `failed`, `failed+changed`, `not_applied` (no catalog, or it was refused), `disabled`, `locked`, `no_certificate`,
    /// `no_permit`, `stopped`, `timeout`.
    #[schemars(with = "Option<String>")]
    pub class: Option<PuppetRunClass>,
    /// Puppet's detailed exit code; -1 if there is none.
    pub exitcode: i32,
    /// Counters of the run's summary: total, changed, failed, failed_to_restart, skipped, out_of_sync and others; empty if the run left no summary.
    #[expect(clippy::doc_markdown, reason = "callers see this text without markup")]
    pub resources: Map<String, Value>,
    /// The catalog's version; empty if there was no catalog.
    #[schemars(title = "Catalog")]
    pub config_version: String,
    /// The environment at the end of the run; empty if it is unknown.
    pub environment: String,
    /// Duration in seconds.
    #[schemars(extend("x-type" = "number"))]
    pub duration: f64,
    /// The last part of Puppet's output.
    pub output: String,
}

/// Start Puppet's agent in the background, now and at boot.
#[derive(Debug, JsonSchema)]
pub struct ProvisionDaemonizePuppet;

impl Action for ProvisionDaemonizePuppet {
    type Agent = ProvisionAgent;
    const NAME: &'static str = "daemonize_puppet";
    type Input = DaemonizePuppetInput;
    type Output = DaemonizePuppetOutput;

    fn properties() -> ActionProperties {
        ActionProperties::root_equivalent()
            .idempotent()
            .timeout(360)
            .change_summary()
            .examples(include_str!("daemonize_puppet.json"))
    }
}

/// Inputs of `daemonize_puppet`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DaemonizePuppetInput {
    /// Report what would change, but change nothing.
    pub noop: Option<bool>,
    /// The fence number of the caller's lock; a lower number than the highest that the node has seen is refused.
    pub fence: Option<u64>,
}

/// Outputs of `daemonize_puppet`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DaemonizePuppetOutput {
    /// Whether anything changed, or would change.
    pub changed: bool,
    /// The last part of the command's output; empty if a service was started.
    pub output: String,
}
