//! Compares the configuration on disk with the one that the daemon has read at its start: a change waits for a restart. Reads only.
//!
//! Files that a reload or a new connection reads again are left out: policies, facts, classes, external agents, schedules of checks, the broker's
//! authorities.

use std::path::{Path, PathBuf};

use muster_api::base::error_chain;
use muster_api::{FindingLevel, HealthFinding};
use muster_wire::token::{AccountTrust, UserCredentials};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::config::Config;
use crate::ground::files;
use crate::trust::credentials;

/// The check of these findings.
pub const CONFIGURATION_CHECK: &str = "configuration";
/// Maximum number of settings that a finding names.
const MAX_NAMED_SETTINGS: usize = 5;

/// The configuration that a daemon runs.
#[derive(Debug)]
pub struct StartedConfig {
    config_file: PathBuf,
    /// As read from the files, without values of the enrolment and the account token.
    loaded: Config,
    account_file: PathBuf,
    /// Keys of the node and of services; each is read once.
    credentials: Vec<(PathBuf, FileDigest)>,
}

/// The digest of a file's content; `None` for a file that cannot be read.
type FileDigest = Option<[u8; 32]>;

impl StartedConfig {
    /// `effective` is the one with the values of the enrolment. Call it before the files are used: a change in between is then reported, not missed.
    pub fn record(config_file: &Path, loaded: &Config, effective: &Config) -> Self {
        let with_digest = |path: PathBuf| {
            let digest = digest_file(&path);
            (path, digest)
        };
        Self {
            config_file: config_file.to_owned(),
            loaded: loaded.clone(),
            account_file: effective.trust.account.clone(),
            credentials: credential_files(effective).into_iter().map(with_digest).collect(),
        }
    }

    /// What a restart would change, or why it would fail. Reads the files; blocks.
    pub(crate) fn find_changes(&self, trust: &AccountTrust) -> Vec<HealthFinding> {
        let new = |level, message| HealthFinding { check: CONFIGURATION_CHECK, level, message };
        let mut findings = Vec::new();
        match Config::load(&self.config_file) {
            Ok(found) => {
                let settings = self.loaded.changed_settings(&found);
                let message = describe_settings(&settings);
                findings.extend(message.map(|message| new(FindingLevel::Warning, message)));
            }
            Err(error) => {
                let problem = error_chain(&error);
                let message = format!(
                    "the configuration on disk is not valid, and rpcd would not start with it: {problem}"
                );
                findings.push(new(FindingLevel::Error, message));
            }
        }
        let files = self.changed_credentials().chain(self.newer_account_file(trust));
        findings.extend(files.map(|path| {
            let path = path.display();
            let message = format!("{path} was changed after rpcd had read it; restart rpcd");
            new(FindingLevel::Warning, message)
        }));
        findings
    }

    fn changed_credentials(&self) -> impl Iterator<Item = &Path> {
        let changed = self.credentials.iter().filter(|(path, digest)| digest_file(path) != *digest);
        changed.map(|(path, _)| path.as_path())
    }

    /// The file of the account token, if its token is newer than the one in force. A node receives newer tokens from the broker, too.
    fn newer_account_file(&self, trust: &AccountTrust) -> Option<&Path> {
        let token = credentials::read_token("the account token", &self.account_file).ok()?;
        trust.update(token.trim()).is_ok().then_some(self.account_file.as_path())
    }
}

/// The sentence about settings that differ; `None` if there are none.
fn describe_settings(settings: &[String]) -> Option<String> {
    let (first, rest) = settings.split_at(settings.len().min(MAX_NAMED_SETTINGS));
    let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
    let names = first.join(", ");
    (!first.is_empty()).then(|| {
        format!(
            "settings on disk differ from those that rpcd runs with: {names}{more}; restart rpcd"
        )
    })
}

/// The files with keys: those of the node, and those of the services on this host.
fn credential_files(config: &Config) -> Vec<PathBuf> {
    let of_plugin = |table: &serde_json::Map<String, Value>| {
        table.get("credentials").and_then(Value::as_str).map(PathBuf::from)
    };
    let services = config.plugins.values().filter_map(of_plugin);
    [config.broker.credentials.clone()].into_iter().chain(services).collect()
}

fn digest_file(path: &Path) -> FileDigest {
    let content = files::read_bytes(path, UserCredentials::MAX_FILE_BYTES).ok()?;
    Some(Sha256::digest(content).into())
}

#[cfg(test)]
mod tests {
    use super::{MAX_NAMED_SETTINGS, describe_settings};

    #[test]
    fn names_a_limited_number_of_settings() {
        assert_eq!(describe_settings(&[]), None);
        let settings: Vec<String> =
            (0..MAX_NAMED_SETTINGS + 2).map(|n| format!("a.k{n}")).collect();
        let message = describe_settings(&settings).unwrap();
        assert!(message.contains("a.k4 and 2 more;"), "{message}");
        assert!(describe_settings(&settings[..1]).unwrap().contains(": a.k0; restart"));
    }
}
