//! Renders the merged configuration for display: one line per key with its value and origin.

use serde_json::{Map, Value};

use super::error::ConfigWarning;
use super::keys::CONFIG_KEYS;
use super::settings::MergedSettings;

/// Replaces a value that looks like a secret.
const REDACTED: &str = "(redacted)";

/// Renders all settings, aligned, in the order of the key table; plugins last.
pub(super) fn render_report(settings: &MergedSettings, warnings: &[ConfigWarning]) -> String {
    let mut rows: Vec<(usize, [String; 3])> = settings
        .iter()
        .map(|(path, setting)| {
            let value = value_text(&redact_setting(path, &setting.value));
            (key_rank(path), [path.join("."), value, setting.origin.to_string()])
        })
        .collect();
    rows.sort_by_key(|(rank, _)| *rank);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|(_, row)| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0).min(60)
    };
    let (keys, values) = (width(0), width(1));
    let row = |(_, [key, value, origin]): &(usize, [String; 3])| {
        format!("{key:keys$} = {value:values$}  # {origin}")
    };
    let lines: Vec<String> = rows.iter().map(row).collect();
    let warnings = warnings.iter().map(|warning| format!("warning: {warning}"));
    lines.into_iter().chain(warnings).map(|line| line + "\n").collect()
}

/// The position of a key in the table; all plugin keys share the last position.
fn key_rank(path: &[String]) -> usize {
    let matches = |known: &str| {
        known.split('.').count() == path.len()
            && known.split('.').zip(path).all(|(known, given)| known == "*" || known == given)
    };
    CONFIG_KEYS.iter().position(|(known, _)| matches(known)).unwrap_or(CONFIG_KEYS.len())
}

fn value_text(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        other => other.to_string(),
    }
}

/// The keys of plugin tables are unknown here, so secrets are detected by their names.
pub(super) fn redact_setting(path: &[String], value: &Value) -> Value {
    let is_plugin = path.first().is_some_and(|first| first == "plugins");
    if is_plugin && path.iter().skip(2).any(|name| looks_secret(name)) {
        return Value::String(REDACTED.to_owned());
    }
    match value {
        Value::Object(_) | Value::Array(_) if is_plugin => redact_nested(value),
        other => other.clone(),
    }
}

/// Redacts tables inside lists.
fn redact_nested(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(redact_nested).collect(),
        Value::Object(map) => {
            let entry = |(name, value): (&String, &Value)| {
                let secret = looks_secret(name);
                let shown = if secret { Value::from(REDACTED) } else { redact_nested(value) };
                (name.clone(), shown)
            };
            Value::Object(map.iter().map(entry).collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

/// Whether a name denotes a secret itself, not a file that contains one.
fn looks_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_path = ["file", "path", "dir"].iter().any(|end| name.ends_with(end));
    let words =
        ["password", "passwd", "passphrase", "secret", "token", "seed", "api_key", "private_key"];
    !is_path && words.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::looks_secret;

    #[test]
    fn recognises_secrets_by_name_but_not_paths_of_secret_files() {
        for secret in ["password", "DB_Password", "api_token", "client_secret", "private_key"] {
            assert!(looks_secret(secret), "{secret}");
        }
        for plain in ["types", "password_file", "token_path", "keys", "user"] {
            assert!(!looks_secret(plain), "{plain}");
        }
    }
}
