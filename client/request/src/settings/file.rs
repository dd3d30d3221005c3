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
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct BrokerSection {
    pub(super) urls: Vec<String>,
    pub(super) ca: Option<PathBuf>,
    pub(super) credentials: Option<PathBuf>,
    pub(super) plaintext_on_loopback: bool,
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

impl SettingsFile {
    /// Parses the text; also returns a warning for each unknown key.
    pub(super) fn parse(text: &str) -> Result<(Self, Vec<String>), toml::de::Error> {
        let mut unknown = Vec::new();
        let document = toml::Deserializer::parse(text)?;
        let file = serde_ignored::deserialize(document, |path| {
            unknown.push(unknown_key_warning(&path.to_string()));
        })?;
        Ok((file, unknown))
    }
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
