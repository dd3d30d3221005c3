//! Configuration values as they may be shown: what is called like a secret is hidden.
//!
//! The daemon keeps its own secrets in files and only their paths in its configuration; a plugin's table may hold
//! anything. Judged by names alone: a secret that is called `colour` is shown.

use muster_api::ddl::REDACTED;
use serde_json::Value;

/// Words that a secret's name holds.
const WORDS: [&str; 9] = [
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
pub(crate) fn shown(item: &str, value: Value) -> Value {
    let within = item.split('.').any(is_secret);
    let path = item.rsplit('.').next().is_some_and(is_place);
    // The daemon names the file of its token `broker.credentials`.
    let file_of_ours = item == "broker.credentials";
    if within && !path && !file_of_ours {
        return REDACTED.into();
    }
    hide(value)
}

/// The same for tables and lists, at any depth.
fn hide(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(hide).collect(),
        Value::Object(table) => {
            let entry = |(name, value): (String, Value)| {
                let value = if is_secret(&name) && !is_place(&name) {
                    REDACTED.into()
                } else {
                    hide(value)
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
    WORDS.iter().any(|word| name.contains(word))
}

/// Whether a name says where a secret is, and not what it is.
fn is_place(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["file", "path", "dir"]
        .iter()
        .any(|end| name.ends_with(end))
}
