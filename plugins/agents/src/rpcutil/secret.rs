//! Redacts secrets in configuration values.
//!
//! The daemon keeps its own secrets in files and only their paths in its configuration, but a plugin's table may hold any value.
//! Redaction goes by names only: a secret named `colour` is not redacted.

use muster_api::ddl::REDACTED;
use serde_json::Value;

/// Parts of names that mark a value as secret.
const SECRET_WORDS: [&str; 9] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "seed",
    "credential",
    "api_key",
    "private_key",
];

/// Redacts the value of the item with this dotted name.
pub(crate) fn redact_item(item: &str, value: Value) -> Value {
    let has_secret_part = item.split('.').any(is_secret);
    let is_path = item.rsplit('.').next().is_some_and(is_path_name);
    // `broker.credentials` is the path of the token file, not a secret.
    let is_credentials_path = item == "broker.credentials";
    if has_secret_part && !is_path && !is_credentials_path {
        return REDACTED.into();
    }
    redact_value(value)
}

/// Redacts tables and lists at any depth.
fn redact_value(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(redact_value).collect(),
        Value::Object(table) => {
            let entry = |(name, value): (String, Value)| {
                let value = if is_secret(&name) && !is_path_name(&name) {
                    REDACTED.into()
                } else {
                    redact_value(value)
                };
                (name, value)
            };
            table.into_iter().map(entry).collect()
        }
        scalar => scalar,
    }
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_WORDS.iter().any(|word| name.contains(word))
}

/// Whether the name denotes the path of a secret rather than the secret itself.
fn is_path_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["file", "path", "dir"].iter().any(|suffix| name.ends_with(suffix))
}
