//! The merged settings: each value with its origin. Later files win, key by key.
//!
//! Independent of the meaning of the keys.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use serde_json::{Map, Value};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingOrigin {
    Default,
    File {
        path: PathBuf,
        /// The line number, from 1.
        line: usize,
    },
    Enrolled,
    /// The account token, which the operator signs.
    Account,
}

impl fmt::Display for SettingOrigin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => out.write_str("default"),
            Self::File { path, line } => write!(out, "{}:{line}", path.display()),
            Self::Enrolled => out.write_str("received at enrolment"),
            Self::Account => out.write_str("account token"),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct SettingEntry {
    pub(super) value: Value,
    pub(super) origin: SettingOrigin,
}

/// All values, by the segments of their keys.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct MergedSettings(BTreeMap<Vec<String>, SettingEntry>);

impl MergedSettings {
    /// Replaces existing values at, above and below the key; an empty table replaces nothing.
    pub(super) fn set(&mut self, path: Vec<String>, setting: SettingEntry) {
        let empty_table = setting.value.as_object().is_some_and(Map::is_empty);
        if empty_table && self.0.keys().any(|known| known.starts_with(&path)) {
            return;
        }
        self.0.retain(|known, _| !known.starts_with(&path) && !path.starts_with(known));
        self.0.insert(path, setting);
    }

    /// The value at exactly this key.
    pub(super) fn get(&self, dotted: &str) -> Option<&SettingEntry> {
        let path: Vec<String> = dotted.split('.').map(str::to_owned).collect();
        self.0.get(&path)
    }

    /// The dotted keys whose values differ, in order. A key that neither side sets is left out, even if its default depends on the machine.
    pub(super) fn changed_keys(&self, other: &Self) -> Vec<String> {
        let is_set = |entry: Option<&SettingEntry>| {
            entry.is_some_and(|entry| entry.origin != SettingOrigin::Default)
        };
        let differs = |path: &&Vec<String>| {
            let (here, there) = (self.0.get(*path), other.0.get(*path));
            (is_set(here) || is_set(there))
                && here.map(|entry| &entry.value) != there.map(|entry| &entry.value)
        };
        let keys: BTreeSet<&Vec<String>> = self.0.keys().chain(other.0.keys()).collect();
        keys.into_iter().filter(differs).map(|path| path.join(".")).collect()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&[String], &SettingEntry)> {
        self.0.iter().map(|(path, setting)| (path.as_slice(), setting))
    }

    /// All values as one nested object. `transform` may replace a value, to redact it.
    pub(super) fn to_tree(&self, transform: impl Fn(&[String], &Value) -> Value) -> Value {
        let mut root = Map::new();
        for (path, setting) in &self.0 {
            if let Some((last, tables)) = path.split_last() {
                let mut table = Some(&mut root);
                for name in tables {
                    table = table.and_then(|inner| {
                        let entry = inner.entry(name.as_str());
                        entry.or_insert_with(|| Value::Object(Map::new())).as_object_mut()
                    });
                }
                if let Some(table) = table {
                    table.insert(last.clone(), transform(path, &setting.value));
                }
            }
        }
        Value::Object(root)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{MergedSettings, SettingEntry, SettingOrigin};

    fn settings(values: &[(&str, Value)], origin: &SettingOrigin) -> MergedSettings {
        let mut settings = MergedSettings::default();
        for (key, value) in values {
            let path = key.split('.').map(str::to_owned).collect();
            settings.set(path, SettingEntry { value: value.clone(), origin: origin.clone() });
        }
        settings
    }

    fn merged(values: &[(&str, Value)]) -> Value {
        settings(values, &SettingOrigin::Default).to_tree(|_, value| value.clone())
    }

    #[test]
    fn changed_keys_are_those_that_a_file_sets_to_another_value() {
        let file = |line| SettingOrigin::File { path: "rpcd.toml".into(), line };
        let before = settings(&[("a.b", json!(1)), ("a.c", json!(2)), ("d", json!(3))], &file(1));
        let moved = settings(&[("a.b", json!(1)), ("a.c", json!(2)), ("d", json!(3))], &file(7));
        assert_eq!(before.changed_keys(&moved), [""; 0]);
        let after = settings(&[("a.b", json!(1)), ("a.c", json!(5)), ("e", json!(3))], &file(1));
        assert_eq!(before.changed_keys(&after), ["a.c", "d", "e"]);
        let default = |value| settings(&[("identity", value)], &SettingOrigin::Default);
        assert_eq!(default(json!("a")).changed_keys(&default(json!("b"))), [""; 0]);
    }

    #[test]
    fn later_values_replace_earlier_values_and_tables() {
        let values = [("a.b", json!(1)), ("a.c", json!(2)), ("a.b", json!([3]))];
        assert_eq!(merged(&values), json!({"a": {"b": [3], "c": 2}}));
        assert_eq!(merged(&[("a", json!(1)), ("a.b", json!(2))]), json!({"a": {"b": 2}}));
        assert_eq!(merged(&[("a.b", json!(1)), ("a", json!(2))]), json!({"a": 2}));
        assert_eq!(merged(&[("a.b", json!(1)), ("a", json!({}))]), json!({"a": {"b": 1}}));
        assert_eq!(merged(&[("a", json!({})), ("a.b", json!(1))]), json!({"a": {"b": 1}}));
    }
}
