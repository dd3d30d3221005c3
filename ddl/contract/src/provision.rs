//! The agent `provision`: steps on a node that is being provisioned.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::puppet::PuppetRunClass;

/// Inputs of `lock`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ProvisionLockInput {
    /// Name of the lock's owner.
    pub owner: String,
    /// Time until the lock expires, in seconds.
    pub lease: u64,
    /// Fence number of the lock, higher than all earlier ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
}

/// Inputs of `unlock`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ProvisionUnlockInput {
    /// Fence number of the caller's lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
    /// Unlock regardless of the holder.
    pub force: bool,
}

/// Inputs of a step without parameters; every other step has this input, too.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct FencedStepInput {
    /// Fence number of the caller's lock: the step is refused if the node has seen a higher one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
}

/// Outputs of `is_disabled`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct IsDisabledOutput {
    /// Whether provisioning mode has ended.
    pub disabled: bool,
    /// Whether its provisioning is in progress.
    #[serde(default)]
    pub provisioning: bool,
}

/// Settings and policies for a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NodeSettings {
    /// Settings of the daemon by dotted key; they replace all that were delivered before. `None` leaves those.
    pub configuration: Option<Map<String, Value>>,
    /// Texts of policy files by file name.
    pub policies: Option<BTreeMap<String, String>>,
}

/// Inputs of `configure`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ProvisionConfigureInput {
    /// See [`NodeSettings::configuration`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration: Option<Map<String, Value>>,
    /// See [`NodeSettings::policies`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policies: Option<BTreeMap<String, String>>,
    /// Whether to check only, and change nothing.
    pub noop: bool,
    /// Fence number of the caller's lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
}

/// Outputs of `configure`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ProvisionConfigureOutput {
    /// Whether a file changed, or would change.
    pub changed: bool,
    /// These files.
    pub files: Vec<String>,
    /// Whether the daemon restarts to apply delivered files.
    pub restarting: bool,
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

/// Outputs of `request_certificate`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RequestCertificateOutput {
    /// State of the request.
    #[schemars(with = "String")]
    pub state: CertificateRequestState,
    /// The name that the certificate is for.
    pub certname: String,
    /// SHA-256 of the request; empty if the authority keeps none.
    pub fingerprint: String,
    /// SHA-256 of the public key.
    pub public_key: String,
    /// The request in PEM form; empty if the authority keeps none.
    pub csr: String,
    /// Output of Puppet.
    pub output: String,
}

/// Outputs of `bootstrap_puppet` and `run_puppet`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RunPuppetOutput {
    /// The outcome class.
    #[schemars(with = "Option<String>")]
    pub class: Option<PuppetRunClass>,
    /// Exit code of the program; -1 if it was stopped.
    pub exitcode: i32,
    /// Number of resources by what happened to them.
    pub resources: Map<String, Value>,
    /// Version of the catalog's configuration.
    pub config_version: String,
    /// The environment.
    pub environment: String,
    /// Duration of the run, in seconds.
    pub duration: f64,
    /// Output of the program.
    pub output: String,
}
