//! The committed answers of `PuppetDB` 7.12 to queries in PQL over a set of nodes, and the answers of this crate to the same queries.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use muster_filter::DocumentQuery;
use muster_filter::state::{NodeFacts, NodeView};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Nodes by their names.
pub(crate) type Nodes = BTreeMap<String, RecordedNode>;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RecordedNode {
    pub(crate) facts: Map<String, Value>,
    /// In lower case, as nodes publish them.
    pub(crate) classes: Vec<String>,
}

/// A file with nodes, and queries with their answers.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RecordedAnswers {
    pub(crate) nodes: Nodes,
    pub(crate) queries: Vec<RecordedQuery>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RecordedQuery {
    pub(crate) query: String,
    /// The nodes that `PuppetDB` selects; none if it refuses the query.
    pub(crate) selected: Option<Vec<String>>,
    /// Why this crate refuses the query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) refused: Option<String>,
}

/// How many queries have which outcome.
#[derive(Debug, Default)]
pub(crate) struct AnswerCounts {
    pub(crate) equal: usize,
    /// Refused by this crate, answered by `PuppetDB`.
    pub(crate) refused: usize,
    /// Refused by both.
    pub(crate) invalid: usize,
    pub(crate) different: Vec<String>,
}

impl RecordedAnswers {
    pub(crate) fn path() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/pql_answers.json")
    }

    pub(crate) fn read() -> Self {
        serde_json::from_slice(&std::fs::read(Self::path()).unwrap()).unwrap()
    }

    /// One node and one query per line.
    pub(crate) fn write(&self) {
        let nodes = self.nodes.iter().map(|(name, node)| {
            format!(
                "{}:{}",
                serde_json::to_string(name).unwrap(),
                serde_json::to_string(node).unwrap()
            )
        });
        let queries = self.queries.iter().map(|query| serde_json::to_string(query).unwrap());
        let nodes = nodes.collect::<Vec<_>>().join(",\n");
        let queries = queries.collect::<Vec<_>>().join(",\n");
        let text = format!("{{\"nodes\":{{\n{nodes}\n}},\"queries\":[\n{queries}\n]}}\n");
        std::fs::write(Self::path(), text).unwrap();
    }
}

/// The nodes that this crate selects, or why it refuses the query.
pub(crate) fn select_nodes(nodes: &Nodes, query: &str) -> Result<Vec<String>, String> {
    let query = DocumentQuery::parse_written(query).map_err(|error| error.expected().to_owned())?;
    let carried = DocumentQuery::parse(&query.to_string()).unwrap();
    let mut selected = Vec::new();
    for (name, node) in nodes {
        let facts = NodeFacts::from_map(node.facts.clone()).unwrap();
        let view = NodeView::new(name, &facts).with_classes(Some(&node.classes));
        let is_selected = query.matches(&view);
        assert_eq!(carried.matches(&view), is_selected, "{query}");
        if is_selected {
            for condition in query.necessary_conditions() {
                assert!(condition.holds(&view), "{query}: {condition:?} of {name}");
            }
            selected.push(name.clone());
        }
    }
    Ok(selected)
}

impl AnswerCounts {
    /// Compares both answers; those of `PuppetDB` are none if it refuses the query.
    pub(crate) fn add(&mut self, nodes: &Nodes, query: &str, expected: Option<&[String]>) {
        match (select_nodes(nodes, query), expected) {
            (Ok(selected), Some(expected)) if selected == *expected => self.equal += 1,
            (Err(_), Some(_)) => self.refused += 1,
            (Err(_), None) => self.invalid += 1,
            (Ok(selected), expected) => {
                self.different
                    .push(format!("{query}\n  selected {selected:?}, PuppetDB {expected:?}"));
            }
        }
    }
}

#[test]
fn answers_equal_those_recorded_from_puppetdb() {
    let RecordedAnswers { nodes, queries } = RecordedAnswers::read();
    let mut counts = AnswerCounts::default();
    for RecordedQuery { query, selected, refused } in &queries {
        counts.add(&nodes, query, selected.as_deref());
        assert_eq!(select_nodes(&nodes, query).err(), *refused, "{query}");
    }
    assert!(counts.different.is_empty(), "{}", counts.different.join("\n"));
    assert!(counts.equal >= 150, "only {} queries are answered", counts.equal);
}
