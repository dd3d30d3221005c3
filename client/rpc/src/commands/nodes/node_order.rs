//! The order of `rpc nodes --sort FACT`: by the values of a fact, or of a state.

use std::cmp::Ordering;

use muster_contract::directory::DirectoryNodeRow;
use muster_filter::state::FactPath;
use serde_json::Value;

/// Nodes by the values at a path. Nodes with equal values stay sorted by name; those without a value are the last ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeOrder {
    /// The path of the fact, or of a state.
    pub path: String,
    is_descending: bool,
}

impl NodeOrder {
    /// Parses a path; `-` before it reverses the order.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (path, is_descending) = match text.strip_prefix('-') {
            Some(path) => (path, true),
            None => (text, false),
        };
        FactPath::parse(path).map_err(|error| error.to_string())?;
        Ok(Self { path: path.to_owned(), is_descending })
    }

    /// Sorts nodes that have the values among their fields.
    pub fn sort(&self, nodes: &mut [DirectoryNodeRow]) {
        nodes.sort_by(|one, other| {
            match (one.fields.get(&self.path), other.fields.get(&self.path)) {
                (Some(one), Some(other)) if self.is_descending => compare_values(other, one),
                (Some(one), Some(other)) => compare_values(one, other),
                (one, other) => other.is_some().cmp(&one.is_some()),
            }
        });
    }
}

/// Numbers by value and before texts; other values by their JSON.
fn compare_values(one: &Value, other: &Value) -> Ordering {
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => one.total_cmp(&other),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => match (one.as_str(), other.as_str()) {
            (Some(one), Some(other)) => one.cmp(other),
            _ => one.to_string().cmp(&other.to_string()),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sorted(order: &str) -> Vec<String> {
        let row = |node: &str, value: Option<Value>| DirectoryNodeRow {
            node: node.to_owned(),
            fields: value.map(|value| ("cpus".to_owned(), value)).into_iter().collect(),
            ..DirectoryNodeRow::default()
        };
        let mut nodes = vec![
            row("a", None),
            row("b", Some(json!(16))),
            row("c", Some(json!(4))),
            row("d", Some(json!("many"))),
            row("e", Some(json!(4.0))),
        ];
        NodeOrder::parse(order).unwrap().sort(&mut nodes);
        nodes.into_iter().map(|row| row.node).collect()
    }

    #[test]
    fn numbers_are_sorted_by_value_and_missing_values_are_last() {
        assert_eq!(sorted("cpus"), ["c", "e", "b", "d", "a"]);
        assert_eq!(sorted("-cpus"), ["d", "b", "c", "e", "a"]);
        assert!(NodeOrder::parse("-").is_err() && NodeOrder::parse("a[0]").is_err());
    }
}
