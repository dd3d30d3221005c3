//! Settings and policies that a provisioner delivers: which of them the node accepts, their limits, and the text of the settings file. Pure.
//!
//! Whether the daemon can use them is not decided here: see [`DeliveryTarget`].

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::io;
use std::path::PathBuf;

use muster_api::ActionError;
use muster_api::base::error_chain;
use serde::Deserialize;
use serde_json::{Map, Value};

/// The file of delivered settings, in the daemon's directory `conf.d`.
pub const SETTINGS_FILE: &str = "90-provisioned.toml";

const MAX_SETTINGS: usize = 256;
const MAX_SETTINGS_BYTES: usize = 64 * 1024;
const MAX_POLICIES: usize = 64;
/// Maximum size of the policies of a delivery together, in bytes.
const MAX_POLICY_BYTES: usize = 256 * 1024;
/// Maximum length of a key or a file name, in bytes.
const MAX_NAME_BYTES: usize = 200;
/// Maximum number of characters of an invalid name in a message.
const MAX_SHOWN_CHARS: usize = 80;
/// Settings on which the state of the provisioning depends: its lock, its fence and its end.
const FIXED_SETTINGS: [&str; 2] = ["identity", "paths.state"];
/// Settings that decide what is accepted. A delivery could widen its own permission with them.
const OWN_TABLE: &str = "plugins.provision";
const HEADER: &str = "# Written by the agent `provision`, action `configure`; the next delivery replaces this file.\n";

/// A delivery whose names, values and sizes are valid and accepted by this node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeDelivery {
    /// The settings; `None` leaves the delivered ones as they are.
    pub settings: Option<DeliveredSettings>,
    /// Texts of policy files by file name.
    pub policies: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeliveredSettings {
    /// The dotted keys, sorted.
    pub keys: Vec<String>,
    /// The text of the settings file; `None` if there are no settings and thus no file.
    pub text: Option<String>,
}

/// The daemon's side of a delivery: it knows its files, and how to check them.
pub trait DeliveryTarget: fmt::Debug + Send + Sync {
    /// Checks the daemon's whole configuration and policies together with the delivered files. Unless `noop`, replaces the files that differ, and
    /// restarts the daemon after running actions have replied. Blocks.
    fn apply_delivery(
        &self,
        delivery: &NodeDelivery,
        noop: bool,
    ) -> Result<DeliveryReport, DeliveryError>;
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeliveryReport {
    /// The files that changed, or would change.
    pub files: Vec<PathBuf>,
    /// Whether the daemon restarts to apply delivered files.
    pub restarting: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    /// The daemon could not use the result; nothing was changed.
    #[error("{0}; nothing was changed")]
    Unusable(String),
    #[error("cannot replace {}", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl From<DeliveryError> for ActionError {
    fn from(error: DeliveryError) -> Self {
        match error {
            DeliveryError::Unusable(_) => Self::invalid_input(error.to_string()),
            DeliveryError::File { .. } => Self::failed(error_chain(&error)),
        }
    }
}

/// A key that may be delivered: `log.level`, or all keys of a table: `facts.*`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct SettingPattern {
    key: String,
    is_table: bool,
}

#[derive(Debug, thiserror::Error)]
#[error(
    "{0:?} is not a setting; write a dotted key such as `log.level`, or a table such as `facts.*`"
)]
pub struct SettingPatternError(String);

impl TryFrom<String> for SettingPattern {
    type Error = SettingPatternError;

    fn try_from(text: String) -> Result<Self, SettingPatternError> {
        let (key, is_table) = match text.strip_suffix(".*") {
            Some(table) => (table, true),
            None => (text.as_str(), false),
        };
        if !is_dotted_key(key) {
            return Err(SettingPatternError(shorten(&text)));
        }
        Ok(Self { key: key.to_owned(), is_table })
    }
}

impl SettingPattern {
    fn matches(&self, key: &str) -> bool {
        if self.is_table { is_below(key, &self.key) } else { key == self.key }
    }
}

/// What this node accepts from a provisioner.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AcceptedDelivery<'a> {
    pub(crate) settings: &'a [SettingPattern],
    pub(crate) policies: bool,
}

/// Why a delivery is refused before it is compared with the daemon's files.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DeliveryRefusal {
    #[error(
        "this node does not accept the setting `{0}` from a provisioner; its administrator can add it to `accept_settings` in [plugins.provision]"
    )]
    Setting(String),
    #[error(
        "this node accepts no settings from a provisioner; its administrator can list them in `accept_settings` in [plugins.provision]"
    )]
    AnySetting,
    #[error(
        "the setting `{0}` cannot be delivered, because [plugins.provision] decides what is accepted"
    )]
    OwnSetting(String),
    #[error(
        "the setting `{0}` cannot be delivered, because the lock and the state of the provisioning depend on it"
    )]
    FixedSetting(String),
    #[error(
        "this node accepts no policies from a provisioner; its administrator can set `accept_policies = true` in [plugins.provision]"
    )]
    Policies,
    #[error(
        "{0:?} is not a setting; keys are names of the characters A-Z, a-z, 0-9, _ and -, separated by dots"
    )]
    Key(String),
    #[error("the value of `{0}` contains a line break or another control character")]
    ControlCharacter(String),
    #[error("the value of `{0}` is not a string, a number, a boolean or a list of these")]
    Kind(String),
    #[error("{0:?} is not the name of a policy; names match ^[a-z0-9_]+\\.(policy|rego)$")]
    PolicyName(String),
    #[error(
        "`{0}` cannot be delivered, because no node evaluates Rego; write the rules as AGENT.policy"
    )]
    Rego(String),
    #[error("{found} {what} are more than {limit}")]
    TooMany { what: &'static str, found: usize, limit: usize },
    #[error("the {what} have {found} bytes, more than {limit}")]
    TooLarge { what: &'static str, found: usize, limit: usize },
}

impl From<DeliveryRefusal> for ActionError {
    fn from(refusal: DeliveryRefusal) -> Self {
        let message = format!("{refusal}; nothing was changed");
        let option = match refusal {
            DeliveryRefusal::Setting(_) | DeliveryRefusal::AnySetting => "accept_settings",
            DeliveryRefusal::OwnSetting(_) | DeliveryRefusal::FixedSetting(_) => "*",
            DeliveryRefusal::Policies => "accept_policies",
            _ => return Self::invalid_input(message),
        };
        Self::denied_by_rule(message, format!("{OWN_TABLE}.{option}"))
    }
}

impl AcceptedDelivery<'_> {
    /// Checks a delivery, and renders its settings.
    pub(crate) fn check(
        self,
        configuration: Option<Map<String, Value>>,
        policies: Option<BTreeMap<String, String>>,
    ) -> Result<NodeDelivery, DeliveryRefusal> {
        let settings = configuration.map(|settings| self.check_settings(settings)).transpose()?;
        let policies = policies.map(|policies| self.check_policies(policies)).transpose()?;
        Ok(NodeDelivery { settings, policies: policies.unwrap_or_default() })
    }

    fn check_settings(
        self,
        settings: Map<String, Value>,
    ) -> Result<DeliveredSettings, DeliveryRefusal> {
        if self.settings.is_empty() {
            return Err(DeliveryRefusal::AnySetting);
        }
        check_count("settings", settings.len(), MAX_SETTINGS)?;
        let sorted: BTreeMap<String, Value> = settings.into_iter().collect();
        let mut text = HEADER.to_owned();
        for (key, value) in &sorted {
            self.check_key(key)?;
            check_value(key, value)?;
            // The JSON of a scalar or a list of scalars without control characters is valid TOML. Writing to a string cannot fail.
            let _ = writeln!(text, "{key} = {value}");
        }
        check_size("settings", text.len(), MAX_SETTINGS_BYTES)?;
        let text = (!sorted.is_empty()).then_some(text);
        Ok(DeliveredSettings { keys: sorted.into_keys().collect(), text })
    }

    fn check_key(self, key: &str) -> Result<(), DeliveryRefusal> {
        if !is_dotted_key(key) {
            return Err(DeliveryRefusal::Key(shorten(key)));
        }
        if key == OWN_TABLE || is_below(key, OWN_TABLE) {
            return Err(DeliveryRefusal::OwnSetting(key.to_owned()));
        }
        if FIXED_SETTINGS.contains(&key) {
            return Err(DeliveryRefusal::FixedSetting(key.to_owned()));
        }
        if !self.settings.iter().any(|pattern| pattern.matches(key)) {
            return Err(DeliveryRefusal::Setting(key.to_owned()));
        }
        Ok(())
    }

    fn check_policies(
        self,
        policies: BTreeMap<String, String>,
    ) -> Result<BTreeMap<String, String>, DeliveryRefusal> {
        if !self.policies {
            return Err(DeliveryRefusal::Policies);
        }
        check_count("policies", policies.len(), MAX_POLICIES)?;
        for name in policies.keys() {
            check_policy_name(name)?;
        }
        check_size("policies", policies.values().map(String::len).sum(), MAX_POLICY_BYTES)?;
        Ok(policies)
    }
}

/// A name matches `^[a-z0-9_]+\.(policy|rego)$`, and nodes evaluate no Rego.
fn check_policy_name(name: &str) -> Result<(), DeliveryRefusal> {
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    match name.split_once('.') {
        Some((stem, kind @ ("policy" | "rego")))
            if !stem.is_empty() && name.len() <= MAX_NAME_BYTES && stem.chars().all(is_allowed) =>
        {
            if kind == "rego" {
                Err(DeliveryRefusal::Rego(name.to_owned()))
            } else {
                Ok(())
            }
        }
        _ => Err(DeliveryRefusal::PolicyName(shorten(name))),
    }
}

/// Checks that the value can be written to one line.
fn check_value(key: &str, value: &Value) -> Result<(), DeliveryRefusal> {
    match value {
        Value::String(text) if text.contains(char::is_control) => {
            Err(DeliveryRefusal::ControlCharacter(key.to_owned()))
        }
        Value::String(_) | Value::Number(_) | Value::Bool(_) => Ok(()),
        Value::Array(items) => items.iter().try_for_each(|item| match item {
            Value::Array(_) => Err(DeliveryRefusal::Kind(key.to_owned())),
            item => check_value(key, item),
        }),
        Value::Null | Value::Object(_) => Err(DeliveryRefusal::Kind(key.to_owned())),
    }
}

fn check_count(what: &'static str, found: usize, limit: usize) -> Result<(), DeliveryRefusal> {
    if found > limit { Err(DeliveryRefusal::TooMany { what, found, limit }) } else { Ok(()) }
}

fn check_size(what: &'static str, found: usize, limit: usize) -> Result<(), DeliveryRefusal> {
    if found > limit { Err(DeliveryRefusal::TooLarge { what, found, limit }) } else { Ok(()) }
}

/// Names that TOML accepts without quotes, separated by dots.
fn is_dotted_key(text: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let is_name = |name: &str| !name.is_empty() && name.chars().all(is_allowed);
    text.len() <= MAX_NAME_BYTES && text.split('.').all(is_name)
}

fn is_below(key: &str, table: &str) -> bool {
    key.strip_prefix(table).is_some_and(|rest| rest.starts_with('.'))
}

fn shorten(text: &str) -> String {
    text.chars().take(MAX_SHOWN_CHARS).collect()
}

#[cfg(test)]
mod tests;
