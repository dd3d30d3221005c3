//! The names of files that can be deployed to a node's daemon.

use std::fmt;

use serde::{Deserialize, Serialize};

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
