//! A node's saved state for policy tests: from a saved document, or from assumed facts.

use std::path::Path;

use muster_contract::directory::DirectoryShowOutput;
use muster_files::files;
use muster_filter::FactTerm;
use muster_filter::state::{NodeFacts, NodeView};
use serde_json::{Map, Value};

use crate::policy::error::PolicyError;

/// Maximum size of a document, in bytes: no reply is larger.
const MAX_DOCUMENT_BYTES: u64 = 4 * 1024 * 1024;

/// The saved state of a node.
#[derive(Debug, Clone, Default)]
pub struct SavedNode {
    identity: String,
    facts: Map<String, Value>,
    checked: NodeFacts,
    classes: Vec<String>,
    agents: Vec<String>,
    collectives: Vec<String>,
}

impl SavedNode {
    /// Reads a file that `rpc node NODE -j` wrote.
    pub fn read(path: &Path) -> Result<Self, PolicyError> {
        let text = files::read_text(path, MAX_DOCUMENT_BYTES)?;
        let invalid = |problem: String| PolicyError::SavedNode(path.to_owned(), problem);
        let document: DirectoryShowOutput =
            serde_json::from_str(&text).map_err(|error| invalid(error.to_string()))?;
        if document.node.node.is_empty() {
            return Err(invalid("it names no node".to_owned()));
        }
        let node = Self {
            identity: document.node.node,
            agents: document.agents.into_keys().collect(),
            collectives: document.node.collectives,
            ..Self::default()
        };
        node.with_facts_and_classes(document.facts, &document.classes.unwrap_or_default())
    }

    /// Adds classes, and facts that replace those with the same names.
    pub fn with_facts_and_classes(
        mut self,
        facts: Map<String, Value>,
        classes: &[String],
    ) -> Result<Self, PolicyError> {
        self.facts.extend(facts);
        self.classes.extend(classes.iter().map(|class| class.to_ascii_lowercase()));
        self.validate_facts()
    }

    /// Adds a fact, such as `os.family=Debian`.
    pub fn with_fact(mut self, text: &str) -> Result<Self, PolicyError> {
        let invalid = |source| PolicyError::Fact(text.to_owned(), source);
        let (name, value) = text.split_once('=').ok_or_else(|| invalid(None))?;
        let term = FactTerm::parse(&format!("{name}=x")).map_err(|error| invalid(Some(error)))?;
        let segments: Vec<&str> = term.fact_path().segments().collect();
        set_nested_value(&mut self.facts, &segments, value.into());
        self.validate_facts()
    }

    fn validate_facts(mut self) -> Result<Self, PolicyError> {
        let message = match self.identity.as_str() {
            "" => "these facts are not valid".to_owned(),
            name => format!("the facts of {name} are not valid"),
        };
        self.checked = NodeFacts::from_value(Value::Object(self.facts.clone()))
            .map_err(|source| PolicyError::Facts(message, source))?;
        Ok(self)
    }

    /// The node's name, if the state is from a document.
    pub fn name(&self) -> Option<&str> {
        Some(self.identity.as_str()).filter(|name| !name.is_empty())
    }

    /// The view for policy evaluation.
    pub fn view(&self) -> NodeView<'_> {
        NodeView::new(&self.identity, &self.checked)
            .with_classes(Some(&self.classes))
            .with_agents(&self.agents)
            .with_collectives(&self.collectives)
    }
}

/// Sets a value in nested maps, and creates missing ones.
fn set_nested_value(map: &mut Map<String, Value>, path: &[&str], value: Value) {
    match path {
        [] => {}
        [last] => drop(map.insert((*last).to_owned(), value)),
        [first, rest @ ..] => {
            let entry = map.entry(*first).or_insert_with(|| Value::Object(Map::new()));
            if !entry.is_object() {
                *entry = Value::Object(Map::new());
            }
            if let Some(inner) = entry.as_object_mut() {
                set_nested_value(inner, rest, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::SavedNode;

    #[test]
    fn dotted_facts_are_added_as_nested_values() {
        let node = SavedNode::default()
            .with_fact("os.family=Debian")
            .and_then(|node| node.with_fact("os.release.major=12"))
            .and_then(|node| node.with_fact("motto=a=b"))
            .unwrap();
        let expected =
            json!({"os": {"family": "Debian", "release": {"major": "12"}}, "motto": "a=b"});
        assert_eq!(serde_json::to_value(node.checked).unwrap(), expected);
        for wrong in ["", "x", "a b=1", "=1"] {
            assert!(SavedNode::default().with_fact(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn reads_a_node_from_its_document() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("db1.json");
        let text = json!({
            "schema": "muster.node.v1", "node": {"node": "db1.acme.net", "collectives": ["muster"]},
            "facts": {"customer": "acme"}, "classes": ["apache"], "agents": {"rpcutil": "1"}, "runs": null,
        });
        std::fs::write(&path, text.to_string()).unwrap();
        let node = SavedNode::read(&path).unwrap();
        assert_eq!(node.name(), Some("db1.acme.net"));
        assert_eq!(
            (&node.classes[..], &node.agents[..]),
            (&["apache".to_owned()][..], &["rpcutil".to_owned()][..])
        );
        std::fs::write(&path, json!({"facts": {}}).to_string()).unwrap();
        assert!(SavedNode::read(&path).unwrap_err().to_string().contains("names no node"));
    }
}
