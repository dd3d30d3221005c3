//! The agent `config`: files that are deployed to a node's daemon, and confirmed by a second request.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum number of files of a deployment.
pub const MAX_DEPLOYED_FILES: usize = 500;
/// Maximum size of all files of a deployment together, in bytes: as JSON they fit into a request.
pub const MAX_DEPLOYED_BYTES: usize = 512 * 1024;
/// Maximum length of a file's name without its directory, in bytes.
const MAX_NAME_BYTES: usize = 200;
/// The authority that signed the broker's certificate.
const AUTHORITY_FILE: &str = "ca.pem";

/// What a deployed file is for, by its directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeployedKind {
    /// `policies/AGENT.policy` and `policies/groups`.
    Policy,
    /// `facts.d/NAME`: external facts.
    Fact,
    /// `checks.d/NAME.toml`: schedules of checks.
    Check,
    /// `conf.d/NAME.toml`: settings of the daemon.
    Setting,
    /// `ca.pem`: the authority of the broker.
    Authority,
}

/// The name of a deployed file: a path below the directory of `rpcd.toml`. Policies come first in the order of names, so that what settings enable is
/// restricted from the start.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DeployedName {
    kind: DeployedKind,
    text: String,
}

/// The text names no file that can be deployed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} cannot be deployed; names are policies/AGENT.policy, policies/groups, facts.d/NAME, checks.d/NAME.toml, conf.d/NAME.toml and ca.pem"
)]
pub struct DeployedNameError(String);

impl DeployedName {
    /// Parses a name. It contains no other directories, and no hidden files.
    pub fn parse(text: &str) -> Result<Self, DeployedNameError> {
        let refused = || DeployedNameError(text.chars().take(80).collect());
        let kind = if text == AUTHORITY_FILE {
            DeployedKind::Authority
        } else {
            let (directory, name) = text.split_once('/').ok_or_else(refused)?;
            kind_of(directory, name).ok_or_else(refused)?
        };
        Ok(Self { kind, text: text.to_owned() })
    }

    /// What the file is for.
    pub fn kind(&self) -> DeployedKind {
        self.kind
    }

    /// The name, with its directory.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The name without its directory.
    pub fn file_name(&self) -> &str {
        self.text.rsplit('/').next().unwrap_or(&self.text)
    }
}

impl TryFrom<String> for DeployedName {
    type Error = DeployedNameError;

    fn try_from(text: String) -> Result<Self, DeployedNameError> {
        Self::parse(&text)
    }
}

impl From<DeployedName> for String {
    fn from(name: DeployedName) -> Self {
        name.text
    }
}

impl fmt::Display for DeployedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn kind_of(directory: &str, name: &str) -> Option<DeployedKind> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '+' | '@');
    let is_valid = !name.is_empty()
        && name.len() <= MAX_NAME_BYTES
        && !name.starts_with('.')
        && name.chars().all(is_plain);
    let has = |extension: &str| name.strip_suffix(extension).is_some_and(|stem| !stem.is_empty());
    match directory {
        _ if !is_valid => None,
        "policies" if name == "groups" || has(".policy") => Some(DeployedKind::Policy),
        "facts.d" => Some(DeployedKind::Fact),
        "checks.d" if has(".toml") => Some(DeployedKind::Check),
        "conf.d" if has(".toml") => Some(DeployedKind::Setting),
        _ => None,
    }
}

/// Inputs of `deploy`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ConfigDeployInput {
    /// The name of the deployment, which the caller chooses.
    pub deployment: String,
    /// Texts of files by name.
    pub files: BTreeMap<String, String>,
    /// The names of those that are programs.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub executables: BTreeSet<String>,
    /// Time until the node restores the earlier files if the deployment is not confirmed, in seconds.
    pub confirm_seconds: u64,
    /// Whether only the changes are reported.
    pub noop: bool,
}

/// Inputs of `revert`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ConfigRevertInput {
    /// The name of the new deployment, which the caller chooses.
    pub deployment: String,
    /// Time until the node undoes it if it is not confirmed, in seconds.
    pub confirm_seconds: u64,
}

/// Outputs of `deploy` and `revert`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ConfigDeployOutput {
    /// The name of the deployment.
    pub deployment: String,
    /// The state: see [`deploy_state`].
    pub state: String,
    /// The files that changed, or would change.
    pub changes: Vec<DeployedChange>,
    /// How the daemon puts them in force: `reload`, `restart`, or `nothing`.
    pub effect: String,
    /// When the node restores the earlier files, by its clock, in milliseconds since the epoch; 0 unless it waits for a confirmation.
    pub confirm_by: u64,
}

/// A file that a deployment changes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeployedChange {
    /// Its name.
    pub name: String,
    /// `added`, `changed` or `removed`.
    pub change: String,
}

/// The states of a deployment.
pub mod deploy_state {
    /// The node has no deployment.
    pub const NONE: &str = "none";
    /// All files were like this before.
    pub const UNCHANGED: &str = "unchanged";
    /// The files would change; only this was asked.
    pub const PLANNED: &str = "planned";
    /// The files were replaced, and the node waits for the confirmation.
    pub const PENDING: &str = "pending";
    /// The deployment was confirmed.
    pub const CONFIRMED: &str = "confirmed";
    /// The earlier files were restored.
    pub const REVERTED: &str = "reverted";
}

/// Inputs of `confirm`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ConfigConfirmInput {
    /// The name of the deployment.
    pub deployment: String,
}

/// Outputs of `confirm`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ConfigConfirmOutput {
    /// The name of the deployment.
    pub deployment: String,
    /// Its state: `confirmed`.
    pub state: String,
}

/// Outputs of `status`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ConfigStatusOutput {
    /// The name of the last deployment; empty if there was none.
    pub deployment: String,
    /// Its state: see [`deploy_state`].
    pub state: String,
    /// Who deployed it.
    pub caller: String,
    /// When, by the node's clock, in milliseconds since the epoch.
    pub deployed_at: u64,
    /// When the node restores the earlier files; 0 unless it waits for a confirmation.
    pub confirm_by: u64,
    /// Why the earlier files were restored; empty if they were not.
    pub reason: String,
    /// The files of the deployment that is in force.
    pub files: Vec<String>,
    /// Which of them were changed by others since.
    pub modified: Vec<String>,
}

/// Inputs of `who`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ConfigWhoInput {
    /// The agent.
    pub agent: String,
    /// Its action.
    pub action: String,
}

/// Outputs of `who`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ConfigWhoOutput {
    /// The callers that the policy names, and all others.
    pub callers: Vec<ConfigCallerRow>,
}

/// What a node's policy decides about a caller.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ConfigCallerRow {
    /// The caller, `service=NAME`, an expression as written, or `*` and `service=*` for all that are not named.
    pub caller: String,
    /// Whether the action is allowed.
    pub allowed: bool,
    /// File and line of the deciding rule, or the default.
    pub rule: String,
    /// The required approvers, as written in the rule; empty if none are required.
    pub approved_by: String,
}

#[cfg(test)]
mod tests {
    use super::{DeployedKind, DeployedName};

    #[test]
    fn only_files_of_the_daemon_have_names() {
        for (name, kind) in [
            ("policies/groups", DeployedKind::Policy),
            ("policies/service.policy", DeployedKind::Policy),
            ("facts.d/site.json", DeployedKind::Fact),
            ("facts.d/rack", DeployedKind::Fact),
            ("checks.d/base.toml", DeployedKind::Check),
            ("conf.d/20-log.toml", DeployedKind::Setting),
            ("ca.pem", DeployedKind::Authority),
        ] {
            assert_eq!(DeployedName::parse(name).map(|name| name.kind()), Ok(kind), "{name}");
        }
        for name in [
            "",
            "groups",
            "rpcd.toml",
            "node.creds",
            "policies/",
            "policies/x",
            "policies/.policy",
            "policies/../rpcd.toml",
            "policies/a/b.policy",
            "facts.d/..",
            "facts.d/.hidden",
            "facts.d/a b",
            "facts.d/a\n",
            "conf.d/x.conf",
            "/etc/passwd",
            "./ca.pem",
            "CA.PEM",
        ] {
            assert!(DeployedName::parse(name).is_err(), "{name:?}");
        }
    }
}
