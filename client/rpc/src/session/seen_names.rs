//! Caches recently seen names of one fleet in a small file in the user's cache directory: nodes, classes, agents, facts and their values. Used for
//! completion and for suggestions; an unreadable file counts as empty.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, SystemTime};

use muster_client::{read_cache_file, replace_cache_file};
use muster_contract::rpcutil::RpcutilInventoryOutput;
use muster_filter::state::NodeFacts;
use muster_filter::{FactOperator, FilterPattern, NodeFilter};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Maximum number of names of each kind.
const MAX_NAMES: usize = 5000;
/// Maximum number of values of one fact. A fact with more differs between nodes, such as an address; completing it is of no use.
const MAX_VALUES_PER_FACT: usize = 100;
/// Maximum number of values of all facts.
const MAX_VALUES: usize = 20_000;
/// Maximum length of a name or value, in bytes.
const MAX_NAME_BYTES: usize = 128;
const MAX_FILE_BYTES: usize = 8 * 1024 * 1024;
/// Maximum age of names since they were last seen.
const MAX_AGE: Duration = Duration::from_hours(24);

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SeenNamesCache {
    pub nodes: BTreeSet<String>,
    pub classes: BTreeSet<String>,
    pub agents: BTreeSet<String>,
    /// Facts, with the values that were seen.
    pub facts: BTreeMap<String, BTreeSet<String>>,
}

impl SeenNamesCache {
    /// Loads the cache; empty if there is none, or it is too old or unreadable.
    pub fn load(path: Option<&Path>) -> Self {
        path.and_then(Self::read_file).unwrap_or_default()
    }

    fn read_file(path: &Path) -> Option<Self> {
        let written = path.metadata().and_then(|file| file.modified()).ok()?;
        let age = SystemTime::now().duration_since(written).unwrap_or_default();
        if age > MAX_AGE {
            return None;
        }
        serde_json::from_slice(&read_cache_file(path, MAX_FILE_BYTES)?).ok()
    }

    /// Write errors are ignored, because the file is only a cache.
    pub fn add_names(path: Option<&Path>, new_names: Self) {
        let Some(path) = path else {
            return;
        };
        let mut cache = Self::load(Some(path));
        let before = cache.clone();
        cache.extend(new_names);
        if cache == before {
            return;
        }
        if let Ok(bytes) = serde_json::to_vec(&cache) {
            let _ = replace_cache_file(path, &bytes);
        }
    }

    /// Adds names up to the limits.
    pub fn extend(&mut self, other: Self) {
        extend_names(&mut self.nodes, other.nodes, MAX_NAMES);
        extend_names(&mut self.classes, other.classes, MAX_NAMES);
        extend_names(&mut self.agents, other.agents, MAX_NAMES);
        let mut values_left = MAX_VALUES.saturating_sub(self.value_count());
        for (name, values) in other.facts {
            if !is_name(&name) || (self.facts.len() >= MAX_NAMES && !self.facts.contains_key(&name))
            {
                continue;
            }
            let known = self.facts.entry(name).or_default();
            let before = known.len();
            let limit = MAX_VALUES_PER_FACT.min(before.saturating_add(values_left));
            let printable = values.into_iter().filter(|value| is_value(value));
            known.extend(printable.take(limit.saturating_sub(before)));
            values_left = values_left.saturating_sub(known.len().saturating_sub(before));
        }
    }

    fn value_count(&self) -> usize {
        self.facts.values().map(BTreeSet::len).sum()
    }

    pub fn add_inventory(&mut self, inventory: RpcutilInventoryOutput) {
        let RpcutilInventoryOutput { facts, classes, agents, .. } = inventory;
        let mut seen = Self {
            classes: classes.into_iter().collect(),
            agents: agents.into_iter().collect(),
            ..Self::default()
        };
        if let Ok(facts) = NodeFacts::from_value(facts.into()) {
            for (name, value) in facts.leaf_values() {
                seen.add_fact(&name, value);
            }
        }
        self.extend(seen);
    }

    pub fn add_fact(&mut self, name: &str, value: &Value) {
        let values = self.facts.entry(name.to_owned()).or_default();
        match value {
            Value::String(text) => drop(values.insert(text.clone())),
            Value::Bool(_) | Value::Number(_) => drop(values.insert(value.to_string())),
            Value::Null | Value::Array(_) | Value::Object(_) => {}
        }
    }

    /// Adds the names in a filter that has matched a node.
    pub fn add_filter(&mut self, filter: &NodeFilter) {
        let exact = |patterns: &[FilterPattern]| -> Vec<String> {
            let exact = patterns.iter().filter_map(|pattern| match pattern {
                FilterPattern::Exact(name) => Some(name.clone()),
                FilterPattern::Regex(_) => None,
            });
            exact.collect()
        };
        self.classes.extend(exact(filter.classes()));
        self.agents.extend(exact(filter.agents()));
        for term in filter.facts() {
            match term.operator() {
                FactOperator::Equal => {
                    self.add_fact(term.fact_path().as_str(), &Value::from(term.value_text()));
                }
                // A node without the fact matches these, too.
                FactOperator::NotEqual | FactOperator::NotMatch => {}
                _ => self.add_fact(term.fact_path().as_str(), &Value::Null),
            }
        }
    }
}

fn extend_names(names: &mut BTreeSet<String>, new_names: BTreeSet<String>, limit: usize) {
    let capacity = limit.saturating_sub(names.len());
    let is_new = |name: &String| is_name(name) && !names.contains(name);
    let new_names: Vec<String> = new_names.into_iter().filter(is_new).take(capacity).collect();
    names.extend(new_names);
}

fn is_name(name: &str) -> bool {
    is_value(name) && !name.contains(char::is_whitespace)
}

fn is_value(value: &str) -> bool {
    !value.is_empty() && value.len() <= MAX_NAME_BYTES && !value.contains(char::is_control)
}

#[cfg(test)]
mod tests {
    use muster_filter::NodeFilter;
    use serde_json::json;

    use super::{MAX_NAMES, MAX_VALUES_PER_FACT, SeenNamesCache};

    fn nodes<'a>(names: impl IntoIterator<Item = &'a str>) -> SeenNamesCache {
        let nodes = names.into_iter().map(str::to_owned).collect();
        SeenNamesCache { nodes, ..SeenNamesCache::default() }
    }

    #[test]
    fn caches_seen_names_up_to_a_limit() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("fleet/seen.json");
        let path = Some(file.as_path());
        assert_eq!(SeenNamesCache::load(path), SeenNamesCache::default());
        SeenNamesCache::add_names(path, nodes(["a", "b"]));
        SeenNamesCache::add_names(path, nodes(["b", "c", "no name", ""]));
        assert_eq!(SeenNamesCache::load(path), nodes(["a", "b", "c"]));
        let many: Vec<String> = (0..2 * MAX_NAMES).map(|n| format!("n{n}")).collect();
        SeenNamesCache::add_names(path, nodes(many.iter().map(String::as_str)));
        assert_eq!(SeenNamesCache::load(path).nodes.len(), MAX_NAMES);
        std::fs::write(&file, "{").unwrap();
        assert_eq!(SeenNamesCache::load(path), SeenNamesCache::default());
        SeenNamesCache::add_names(None, nodes(["a"]));
    }

    #[test]
    fn inventories_and_matching_filters_are_sources_of_names() {
        let mut seen = SeenNamesCache::default();
        let inventory = json!({
            "agents": ["rpcutil", "disk"], "classes": ["apache", "mysql::master"],
            "facts": {"os": {"family": "Debian"}, "cores": 4, "virtual": true, "tags": [], "none": null},
        });
        seen.add_inventory(serde_json::from_value(inventory).unwrap());
        let values = |seen: &SeenNamesCache, fact: &str| -> Vec<String> {
            seen.facts[fact].iter().cloned().collect()
        };
        assert_eq!(values(&seen, "os.family"), ["Debian"]);
        assert_eq!(
            (values(&seen, "cores"), values(&seen, "virtual")),
            (vec!["4".to_owned()], vec!["true".to_owned()])
        );
        let filter = NodeFilter::default()
            .with_words("country=uk redis os.family=RedHat ram>3 /x/")
            .and_then(|filter| filter.with_agent("shell"))
            .unwrap();
        seen.add_filter(&filter);
        assert_eq!(values(&seen, "os.family"), ["Debian", "RedHat"]);
        assert_eq!(values(&seen, "country"), ["uk"]);
        assert!(seen.classes.contains("redis") && seen.agents.contains("shell"));
        assert!(seen.facts["ram"].is_empty(), "a comparison names no value");
    }

    #[test]
    fn values_of_a_fact_are_limited() {
        let mut seen = SeenNamesCache::default();
        for number in 0..2 * MAX_VALUES_PER_FACT {
            let mut one = SeenNamesCache::default();
            one.add_fact("uptime", &json!(number));
            one.add_fact("banner", &json!("x\u{1b}[2J"));
            seen.extend(one);
        }
        assert_eq!(seen.facts["uptime"].len(), MAX_VALUES_PER_FACT);
        assert!(seen.facts["banner"].is_empty());
    }
}
