//! Configuration values as they may be shown: what is called like a secret is hidden.
//!
//! The daemon keeps its own secrets in files and only their paths in its configuration; a plugin's table may hold
//! anything. Judged by names alone: a secret that is called `colour` is shown.

use muster_api::ddl::REDACTED;
use serde_json::Value;

/// Words that a secret's name holds.
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

/// The value of the item with this dotted name, every secret in it replaced.
pub(crate) fn redact_item(item: &str, value: Value) -> Value {
    let within = item.split('.').any(is_secret);
    let path = item.rsplit('.').next().is_some_and(is_path_name);
    // The daemon names the file of its token `broker.credentials`.
    let file_of_ours = item == "broker.credentials";
    if within && !path && !file_of_ours {
        return REDACTED.into();
    }
    redact_value(value)
}

/// The same for tables and lists, at any depth.
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

/// Whether a name says where a secret is, and not what it is.
fn is_path_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["file", "path", "dir"]
        .iter()
        .any(|end| name.ends_with(end))
}
