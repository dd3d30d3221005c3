//! What the daemon and the hosts file of a node get: `configure` and `set_puppet_host`.

use std::collections::BTreeMap;

use muster_ddl::{Action, ActionProperties};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{HOST_PATTERN, ProvisionAgent};

/// Settings and policies for a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NodeSettings {
    /// Settings of the daemon by dotted key; they replace all that were delivered before. `None` leaves those.
    pub configuration: Option<Map<String, Value>>,
    /// Texts of policy files by file name.
    pub policies: Option<BTreeMap<String, String>>,
}

/// Deliver settings of the daemon and policies. Accepts only what the node's own configuration permits, checks the whole result before anything is
/// written, and restarts the daemon if a file changed.
#[derive(Debug, JsonSchema)]
pub struct ProvisionConfigure;

impl Action for ProvisionConfigure {
    type Agent = ProvisionAgent;
    const NAME: &'static str = "configure";
    type Input = ProvisionConfigureInput;
    type Output = ProvisionConfigureOutput;

    fn properties() -> ActionProperties {
        ActionProperties::root_equivalent()
            .idempotent()
            .timeout(60)
            .summary("changed")
            .examples(include_str!("configure.json"))
    }
}

/// Inputs of `configure`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ProvisionConfigureInput {
    /// Settings by dotted key, such as `log.level`; they replace all settings that were delivered before. Values are strings without line breaks,
    /// numbers, booleans and lists of these. Default: the delivered settings stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration: Option<Map<String, Value>>,
    /// Texts of policy files by file name, such as `puppet.policy`; other policies of the node stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policies: Option<BTreeMap<String, String>>,
    /// Only check, and report which files would change.
    #[schemars(title = "Noop", extend("x-default" = false))]
    pub noop: bool,
    /// The fence number of the caller's lock; a lower number than the highest that the node has seen is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
}

/// Outputs of `configure`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ProvisionConfigureOutput {
    /// Whether a file changed, or would change with noop.
    pub changed: bool,
    /// The files that changed, or would change with noop.
    pub files: Vec<String>,
    /// Whether the daemon restarts after this reply to apply delivered files; when a later call returns false, they are in force.
    pub restarting: bool,
}

/// Set the address of the Puppet server in the hosts file. Changes only lines that this action has written.
#[derive(Debug, JsonSchema)]
pub struct ProvisionSetPuppetHost;

impl Action for ProvisionSetPuppetHost {
    type Agent = ProvisionAgent;
    const NAME: &'static str = "set_puppet_host";
    type Input = SetPuppetHostInput;
    type Output = SetPuppetHostOutput;

    fn properties() -> ActionProperties {
        ActionProperties::root_equivalent()
            .idempotent()
            .timeout(60)
            .change_summary()
            .examples(include_str!("set_puppet_host.json"))
    }
}

/// Inputs of `set_puppet_host`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SetPuppetHostInput {
    /// IPv4 or IPv6 address of the server.
    #[schemars(title = "Address", length(max = 45), extend("x-validation" = "ipaddress"))]
    pub ipaddress: String,
    /// A second address of the server, for a name with an address of each kind.
    #[schemars(title = "IPv6 Address", length(max = 45), extend("x-validation" = "ipv6address"))]
    pub ipaddress6: Option<String>,
    /// The name of the server.
    #[schemars(title = "Host Name", length(max = 253), regex(pattern = HOST_PATTERN), extend("x-default" = "puppet"))]
    pub host: String,
    /// Report what would change, but change nothing.
    pub noop: Option<bool>,
    /// The fence number of the caller's lock; a lower number than the highest that the node has seen is refused.
    pub fence: Option<u64>,
}

/// Outputs of `set_puppet_host`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SetPuppetHostOutput {
    /// Whether anything changed, or would change.
    pub changed: bool,
    /// The lines that are now in the file, or would be.
    pub lines: Vec<String>,
}
