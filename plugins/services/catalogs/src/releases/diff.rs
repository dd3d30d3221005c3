//! What differs between two catalogs of a node, by resource. Pure.
//!
//! Files and lines of manifests, tags, and what contains a resource are no difference. A secret is shown as changed, never its digest.

use std::collections::{BTreeMap, BTreeSet};

use muster_wire::catalog::content::ContentAddress;
use muster_wire::catalog::has_secret;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Prefix of what stands for the content of a source, beside the parameters.
const CONTENT_OF: &str = "content of ";

/// A difference of one resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ResourceChange {
    Added,
    Removed,
    /// A parameter, or the content of a file that a source names.
    Parameter {
        name: String,
        /// Absent if there was no value, or it is secret.
        before: Option<String>,
        after: Option<String>,
    },
}

impl ResourceChange {
    /// The contents before and after, if this is a change of the content of a source.
    pub fn contents(&self) -> Option<(Option<ContentAddress>, Option<ContentAddress>)> {
        let Self::Parameter { name, before, after } = self else { return None };
        let address = |value: &Option<String>| {
            ContentAddress::parse(value.as_deref()?.strip_prefix("{sha256}")?).ok()
        };
        name.starts_with(CONTENT_OF).then(|| (address(before), address(after)))
    }
}

type Parameters = BTreeMap<String, Value>;

/// The differences by resource, in the order of their names.
pub fn diff_catalogs(
    before: &Map<String, Value>,
    after: &Map<String, Value>,
) -> Vec<(String, ResourceChange)> {
    let (before, after) = (resources_of(before), resources_of(after));
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let mut changes = Vec::new();
    for name in names {
        let change = |change| (name.clone(), change);
        match (before.get(name), after.get(name)) {
            (None, _) => changes.push(change(ResourceChange::Added)),
            (_, None) => changes.push(change(ResourceChange::Removed)),
            (Some(before), Some(after)) => {
                changes.extend(diff_parameters(before, after).into_iter().map(change));
            }
        }
    }
    changes
}

fn diff_parameters(before: &Parameters, after: &Parameters) -> Vec<ResourceChange> {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let differing = names.into_iter().filter(|name| before.get(*name) != after.get(*name));
    differing
        .map(|name| ResourceChange::Parameter {
            name: name.clone(),
            before: before.get(name).and_then(shown_value),
            after: after.get(name).and_then(shown_value),
        })
        .collect()
}

/// The parameters of each resource, with the checksums of the files that its sources name.
fn resources_of(catalog: &Map<String, Value>) -> BTreeMap<String, Parameters> {
    let list = catalog.get("resources").and_then(Value::as_array);
    let mut resources: BTreeMap<String, Parameters> = BTreeMap::new();
    for resource in list.into_iter().flatten() {
        let text = |key: &str| resource.get(key).and_then(Value::as_str);
        let (Some(kind), Some(title)) = (text("type"), text("title")) else { continue };
        let parameters = resource.get("parameters").and_then(Value::as_object);
        let parameters = parameters.into_iter().flatten();
        let parameters = parameters.map(|(name, value)| (name.clone(), value.clone())).collect();
        resources.insert(format!("{kind}[{title}]"), parameters);
    }
    for (title, metadata) in entries(catalog.get("metadata")) {
        if let Some(parameters) = resources.get_mut(&format!("File[{title}]")) {
            parameters.extend(checksum(metadata).map(|sum| (format!("{CONTENT_OF}source"), sum)));
        }
    }
    for (title, sources) in entries(catalog.get("recursive_metadata")) {
        let Some(parameters) = resources.get_mut(&format!("File[{title}]")) else { continue };
        for (_, tree) in entries(Some(sources)) {
            for metadata in tree.as_array().into_iter().flatten() {
                let path = metadata.get("relative_path").and_then(Value::as_str).unwrap_or(".");
                let sum = checksum(metadata).unwrap_or(Value::Null);
                parameters.insert(format!("{CONTENT_OF}{path}"), sum);
            }
        }
    }
    resources
}

fn entries(value: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    value.and_then(Value::as_object).into_iter().flatten()
}

fn checksum(metadata: &Value) -> Option<Value> {
    metadata.pointer("/checksum/value").cloned()
}

/// A value as text; `None` if it is secret.
fn shown_value(value: &Value) -> Option<String> {
    match value {
        _ if has_secret(value) => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn catalog(resources: Value) -> Map<String, Value> {
        Map::from_iter([("resources".to_owned(), resources)])
    }

    #[test]
    fn lines_are_no_difference_and_secrets_are_not_shown() {
        let secret = |digest: &str| json!({"__ptype": "muster::Secret", "digest": digest});
        let resource = |line: u64, digest: &str, ensure: &str| {
            catalog(json!([{
                "type": "User", "title": "rip", "line": line, "file": "a.pp", "tags": ["x"],
                "parameters": {"password": secret(digest), "ensure": ensure},
            }]))
        };
        let before = resource(1, "aa", "present");
        assert_eq!(diff_catalogs(&before, &resource(2, "aa", "present")), []);
        let changed =
            ResourceChange::Parameter { name: "password".to_owned(), before: None, after: None };
        let name = "User[rip]".to_owned();
        assert_eq!(diff_catalogs(&before, &resource(1, "bb", "present")), [(name, changed)]);
        let removed = diff_catalogs(&before, &catalog(json!([])));
        assert_eq!(removed, [("User[rip]".to_owned(), ResourceChange::Removed)]);
    }
}
