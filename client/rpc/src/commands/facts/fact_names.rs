//! Renders the names of the facts of a fleet.

use std::collections::HashMap;

use muster_base::compare_natural;
use muster_display::table::Table;
use muster_filter::state::NodeFacts;
use serde::Serialize;
use serde_json::{Map, Value};

/// Counts the nodes that have each fact.
#[derive(Debug, Default)]
pub struct FactNameCounts {
    nodes: usize,
    counts: HashMap<String, usize>,
}

impl FactNameCounts {
    /// Adds the facts in the outputs of `rpcutil inventory` of one node.
    pub fn add_facts(&mut self, outputs: &Map<String, Value>) -> Result<(), serde_json::Error> {
        let facts = outputs.get("facts").cloned().unwrap_or_default();
        let facts: NodeFacts = serde_json::from_value(facts)?;
        self.nodes += 1;
        let leaves = facts.leaf_values();
        let mut names: Vec<&str> = leaves.iter().map(|(path, _)| without_index(path)).collect();
        names.dedup();
        for name in names {
            *self.counts.entry(name.to_owned()).or_default() += 1;
        }
        Ok(())
    }

    /// The names, sorted.
    pub fn to_document(&self) -> FactNamesDocument {
        let to_row =
            |(name, count): (&String, &usize)| FactNameCount { name: name.clone(), nodes: *count };
        let mut facts: Vec<FactNameCount> = self.counts.iter().map(to_row).collect();
        facts.sort_by(|a, b| compare_natural(&a.name, &b.name));
        FactNamesDocument { schema: "muster.fact_names.v1", nodes: self.nodes, facts }
    }
}

/// The name of the list, for an element of a list of values: conditions apply to every element.
fn without_index(path: &str) -> &str {
    match path.rsplit_once('.') {
        Some((list, index)) if index.bytes().all(|byte| byte.is_ascii_digit()) => list,
        _ => path,
    }
}

/// The document for programs.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct FactNamesDocument {
    schema: &'static str,
    /// The number of nodes whose facts are counted.
    nodes: usize,
    facts: Vec<FactNameCount>,
}

/// A fact, and how many nodes have it.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct FactNameCount {
    name: String,
    nodes: usize,
}

impl FactNamesDocument {
    pub fn render_text(&self, width: usize) -> String {
        let rows = self.facts.iter().map(|fact| [fact.name.clone(), fact.nodes.to_string()]);
        Table::new(["FACT", "NODES"]).rows(rows).render(width)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::FactNameCounts;

    #[test]
    fn names_are_counted_and_sorted() {
        let mut names = FactNameCounts::default();
        for facts in [
            json!({"os": {"family": "Debian"}, "disks": [{"size": 1}, {"size": 2}], "tags": ["a", "b"]}),
            json!({"os": {"family": "RedHat"}, "eth10": 1, "eth9": null, "tags": []}),
        ] {
            let outputs = json!({ "facts": facts });
            names.add_facts(outputs.as_object().unwrap()).unwrap();
        }
        let document = names.to_document();
        let shown: Vec<String> =
            document.facts.iter().map(|fact| format!("{} {}", fact.name, fact.nodes)).collect();
        assert_eq!(
            shown,
            ["disks.0.size 1", "disks.1.size 1", "eth9 1", "eth10 1", "os.family 2", "tags 2"]
        );
        assert!(document.render_text(80).contains("FACT"));
        assert!(names.add_facts(json!({"facts": 1}).as_object().unwrap()).is_err());
    }
}
