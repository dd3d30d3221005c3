//! The keys of `rpc.toml` in their file format, with defaults. The parent module validates them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use muster_base::nearest_name;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::confirm::ConfirmMode;

/// The whole file. Absent keys have their defaults in the parent module, unless that is the type's own.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct SettingsFile {
    pub(super) collective: Option<String>,
    pub(super) confirm: ConfirmMode,
    pub(super) confirm_above: Option<usize>,
    pub(super) broker: BrokerSection,
    pub(super) trust: TrustSection,
    pub(super) discovery: DiscoverySection,
    pub(super) paths: PathsSection,
    pub(super) requests: RequestsSection,
    pub(super) ssh: SshSection,
    pub(super) icinga: IcingaSection,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct BrokerSection {
    pub(super) urls: Vec<String>,
    pub(super) ca: Option<PathBuf>,
    pub(super) credentials: Option<PathBuf>,
    pub(super) plaintext_on_loopback: bool,
    pub(super) follow: Option<bool>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct TrustSection {
    pub(super) operator: Option<String>,
    pub(super) account: Option<PathBuf>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct DiscoverySection {
    pub(super) timeout_seconds: Option<f64>,
    pub(super) window_ms: Option<u64>,
    pub(super) method: Option<String>,
    pub(super) options: BTreeMap<String, toml::Value>,
    pub(super) require_filter: bool,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct PathsSection {
    pub(super) ddls: Option<PathBuf>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct RequestsSection {
    pub(super) plain_secrets: bool,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct SshSection {
    pub(super) certificates: bool,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct IcingaSection {
    pub(super) url: Option<String>,
    pub(super) user: Option<String>,
    pub(super) password_file: Option<PathBuf>,
    pub(super) ca: Option<PathBuf>,
    pub(super) certificate: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
    pub(super) timeout_seconds: Option<u64>,
}

impl SettingsFile {
    /// Parses the text; also returns a warning for each unknown key.
    pub(super) fn parse(text: &str) -> Result<(Self, Vec<String>), SettingsSyntaxError> {
        let located = |error| SettingsSyntaxError::locate(&error, text);
        let mut unknown = Vec::new();
        let document = toml::Deserializer::parse(text).map_err(located)?;
        let file = serde_ignored::deserialize(document, |path| {
            unknown.push(unknown_key_warning(&path.to_string()));
        })
        .map_err(located)?;
        Ok((file, unknown))
    }
}

/// Where a file is not a configuration, and why. Contains nothing of the file, which may be a secret that was given by mistake.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {message}")]
pub struct SettingsSyntaxError {
    line: usize,
    column: usize,
    message: String,
}

impl SettingsSyntaxError {
    fn locate(error: &toml::de::Error, text: &str) -> Self {
        let before = text.get(..error.span().map_or(0, |span| span.start)).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Self {
            line: before.matches('\n').count() + 1,
            column: before.get(line_start..).unwrap_or_default().chars().count() + 1,
            message: omit_quotations(error.message()),
        }
    }
}

/// A parser's message without the value that it quotes: ``invalid type: string "x", expected a boolean``.
fn omit_quotations(message: &str) -> String {
    let (found, expected) = message.split_at(message.rfind(", expected").unwrap_or(message.len()));
    let found = found.find(['"', '`', '\'']).and_then(|at| found.get(..at)).unwrap_or(found);
    format!("{}{expected}", found.trim_end())
}

/// The warning for an unknown key, with the most similar known one.
fn unknown_key_warning(key: &str) -> String {
    match nearest_name(key, known_keys().iter().map(String::as_str)) {
        Some(known) => format!("unknown key `{key}` is ignored; did you mean `{known}`?"),
        None => format!("unknown key `{key}` is ignored"),
    }
}

/// All known keys, as dotted names. Absent options are serialised as null, so the defaults have all of them.
pub(super) fn known_keys() -> Vec<String> {
    let mut keys = Vec::new();
    if let Ok(Value::Object(file)) = serde_json::to_value(SettingsFile::default()) {
        for (name, value) in file {
            match value {
                Value::Object(section) => {
                    keys.extend(section.keys().map(|key| format!("{name}.{key}")));
                }
                _ => keys.push(name),
            }
        }
    }
    keys
}
