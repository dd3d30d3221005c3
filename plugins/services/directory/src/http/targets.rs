//! Scrape targets of Prometheus, in the format of its HTTP service discovery. Pure.

use muster_contract::directory::DirectoryNodeRow;
use muster_filter::state::FactPath;
use serde::Serialize;
use serde_json::{Map, Value};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FactLabel {
    name: String,
    pub(super) path: FactPath,
}

/// A group of targets: one node.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub(super) struct TargetGroup {
    /// Host and port.
    targets: Vec<String>,
    /// Labels of the node. `__meta_muster_*` are for relabelling, and dropped after it.
    labels: Map<String, Value>,
}

impl FactLabel {
    /// Parses `FACT`, or `LABEL=FACT`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (name, path) = match text.split_once('=') {
            Some((name, path)) => (name.to_owned(), path),
            None => (label_name(text), text),
        };
        let is_number = name.starts_with(|c: char| c.is_ascii_digit());
        if name.is_empty() || is_number || label_name(&name) != name {
            return Err(format!(
                "label: `{name}` is not a valid label: use letters, digits and _, and no digit first"
            ));
        }
        let path = FactPath::parse(path).map_err(|error| format!("label: {error}"))?;
        Ok(Self { name, path })
    }
}

/// The group of a node, whose row has the fields of the labels.
pub(super) fn target_group(
    row: &DirectoryNodeRow,
    classes: &[String],
    port: u16,
    labels: &[FactLabel],
) -> TargetGroup {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut found = Map::new();
    for (name, value) in [
        ("__meta_muster_node", row.node.clone()),
        ("__meta_muster_state", row.state.clone()),
        // Commas on both sides, so that an expression can search for `,NAME,`.
        ("__meta_muster_classes", surrounded(classes)),
        ("__meta_muster_collectives", surrounded(&row.collectives)),
    ] {
        found.insert(name.to_owned(), Value::String(value));
    }
    for label in labels {
        if let Some(value) = row.fields.get(label.path.as_str()) {
            found.insert(label.name.clone(), Value::String(text(value)));
        }
    }
    TargetGroup { targets: vec![format!("{}:{port}", row.node)], labels: found }
}

fn surrounded(names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!(",{},", names.join(",")) }
}

/// The text with each character that a label must not have as `_`.
fn label_name(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_have_names_of_prometheus() {
        let name = |text: &str| FactLabel::parse(text).map(|label| label.name);
        assert_eq!(name("rack.name"), Ok("rack_name".to_owned()));
        assert_eq!(name("rack=rack.name"), Ok("rack".to_owned()));
        for wrong in ["=a", "1a=a", "a-b=a", "a=", "0.a"] {
            assert!(name(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn values_of_facts_are_texts() {
        let row = DirectoryNodeRow {
            node: "db1.acme.net".to_owned(),
            state: "present".to_owned(),
            fields: [("cpus".to_owned(), json!(4)), ("rack.name".to_owned(), json!("r1"))].into(),
            ..DirectoryNodeRow::default()
        };
        let labels = ["cpus", "rack=rack.name", "none"];
        let labels: Vec<FactLabel> =
            labels.iter().map(|label| FactLabel::parse(label).unwrap()).collect();
        let classes = ["a".to_owned(), "b".to_owned()];
        let group = serde_json::to_value(target_group(&row, &classes, 9100, &labels)).unwrap();
        let expected = json!({"targets": ["db1.acme.net:9100"], "labels": {
            "__meta_muster_node": "db1.acme.net", "__meta_muster_state": "present",
            "__meta_muster_classes": ",a,b,", "__meta_muster_collectives": "",
            "cpus": "4", "rack": "r1"}});
        assert_eq!(group, expected);
    }
}
