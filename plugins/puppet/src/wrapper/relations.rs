//! Notifications and containment of the resources in a Puppet catalog (JSON). Reads only references.

use std::collections::{BTreeMap, BTreeSet};

use muster_engine::ledger::PUPPET_DEFINITION_PREFIX;
use muster_engine::providers::digest::ChecksumKind;
use serde_json::Value;

/// Number of hexadecimal digits of a digest of parameters.
const DIGEST_DIGITS: usize = 32;
const MAX_CONTAINER_DEPTH: usize = 100;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CatalogRelations {
    /// The catalog's spelling of each reference, by comparison key.
    spellings: BTreeMap<String, String>,
    notifies: BTreeMap<String, BTreeSet<String>>,
    container: BTreeMap<String, String>,
    /// Resources with the metaparameter `noop`.
    noop: BTreeSet<String>,
    /// Digests of the parameters, by comparison key.
    definitions: BTreeMap<String, String>,
}

/// Key by which references are compared: class names are case-insensitive.
pub fn comparison_key(reference: &str) -> String {
    if reference.starts_with("Class[") { reference.to_lowercase() } else { reference.to_owned() }
}

/// Whether a reference is that of a container: a class or a defined type.
fn is_container(reference: &str, members: &BTreeMap<String, String>) -> bool {
    members.values().any(|container| container == reference)
}

impl CatalogRelations {
    /// Reads a catalog; an invalid one has no relations.
    pub fn from_catalog(catalog: &Value) -> Self {
        let mut relations = Self::default();
        let resources = catalog.get("resources").and_then(Value::as_array);
        for resource in resources.into_iter().flatten() {
            relations.add_resource(resource);
        }
        let edges = catalog.get("edges").and_then(Value::as_array);
        for edge in edges.into_iter().flatten() {
            let endpoint = |name: &str| edge.get(name).and_then(Value::as_str).map(comparison_key);
            if let (Some(container), Some(member)) = (endpoint("source"), endpoint("target")) {
                relations.container.insert(member, container);
            }
        }
        relations
    }

    fn add_resource(&mut self, resource: &Value) {
        let field = |name: &str| resource.get(name).and_then(Value::as_str);
        let (Some(type_name), Some(title)) = (field("type"), field("title")) else { return };
        let spelling = format!("{type_name}[{title}]");
        let key = comparison_key(&spelling);
        self.spellings.insert(key.clone(), spelling);
        let parameters = resource.get("parameters");
        let references = |name: &str| {
            let value = parameters.and_then(|parameters| parameters.get(name));
            value.map(reference_keys).unwrap_or_default()
        };
        for target in references("notify") {
            self.add_notification(key.clone(), target);
        }
        for source in references("subscribe") {
            self.add_notification(source, key.clone());
        }
        let noop = parameters.and_then(|parameters| parameters.get("noop"));
        if noop.and_then(Value::as_bool) == Some(true) {
            self.noop.insert(key.clone());
        }
        self.definitions.insert(key, definition_digest(parameters));
    }

    fn add_notification(&mut self, source: String, target: String) {
        self.notifies.entry(source).or_default().insert(target);
    }

    /// The catalog's spelling of a reference; `None` if it is not in the catalog.
    pub fn catalog_spelling(&self, reference: &str) -> Option<&str> {
        self.spellings.get(&comparison_key(reference)).map(String::as_str)
    }

    /// Whether this is a catalog at all: even an empty one has classes and stages.
    pub fn is_empty(&self) -> bool {
        self.spellings.is_empty()
    }

    /// Digest of the resource's parameters; empty if it is not in the catalog.
    pub fn definition(&self, reference: &str) -> &str {
        self.definitions.get(&comparison_key(reference)).map_or("", String::as_str)
    }

    /// Whether the resource itself is in noop.
    pub fn is_noop(&self, reference: &str) -> bool {
        self.noop.contains(&comparison_key(reference))
    }

    pub fn is_container(&self, reference: &str) -> bool {
        is_container(&comparison_key(reference), &self.container)
    }

    /// Targets that the resource itself notifies, in the catalog's spelling.
    pub fn notify_targets(&self, reference: &str) -> Vec<String> {
        let targets = self.notifies.get(&comparison_key(reference)).into_iter().flatten();
        targets.filter_map(|target| self.spellings.get(target).cloned()).collect()
    }

    /// The containers of a resource, innermost first.
    pub fn container_chain(&self, reference: &str) -> Vec<String> {
        let mut found = Vec::new();
        let mut current = comparison_key(reference);
        while let Some(container) = self.container.get(&current)
            && found.len() < MAX_CONTAINER_DEPTH
        {
            let spelling = self.spellings.get(container).unwrap_or(container);
            found.push(spelling.clone());
            current.clone_from(container);
        }
        found
    }

    /// Resource of a log source: `/Stage[main]/Main/File[/etc/motd]` is `File[/etc/motd]`.
    pub fn resource_for_source(&self, source: &str) -> String {
        if !source.starts_with('/') {
            return source.to_owned();
        }
        let suffix = |(at, _): (usize, &str)| source.get(at + 1..);
        let suffixes: Vec<&str> = source.match_indices('/').filter_map(suffix).collect();
        let exact = suffixes.iter().find(|suffix| self.catalog_spelling(suffix).is_some());
        let is_reference = |suffix: &&&str| {
            let (type_name, _) = suffix.split_once('[').unwrap_or_default();
            type_name.starts_with(|c: char| c.is_ascii_uppercase())
                && type_name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':')
        };
        let guessed = suffixes.iter().rev().find(is_reference);
        exact.or(guessed).copied().unwrap_or(source).to_owned()
    }
}

/// Digest of the parameters, apart from those that say only when the resource is evaluated and for whom.
fn definition_digest(parameters: Option<&Value>) -> String {
    let unrelated =
        ["before", "require", "notify", "subscribe", "noop", "schedule", "tag", "alias"];
    let mut parameters = parameters.and_then(Value::as_object).cloned().unwrap_or_default();
    parameters.retain(|name, _| !unrelated.contains(&name.as_str()));
    let bytes = serde_json::to_vec(&parameters).unwrap_or_default();
    let mut digest = ChecksumKind::Sha256.hex_checksum(&bytes);
    digest.truncate(DIGEST_DIGITS);
    format!("{PUPPET_DEFINITION_PREFIX}{digest}")
}

/// Keys of one reference or of a list of references.
fn reference_keys(value: &Value) -> Vec<String> {
    match value {
        Value::String(one) => vec![comparison_key(one)],
        Value::Array(several) => several.iter().flat_map(reference_keys).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::CatalogRelations;

    fn relations() -> CatalogRelations {
        CatalogRelations::from_catalog(&json!({
            "resources": [
                {"type": "Stage", "title": "main"},
                {"type": "Class", "title": "main"},
                {"type": "Class", "title": "Web", "parameters": {"notify": ["Exec[Y]"]}},
                {"type": "File", "title": "/etc/a", "parameters": {"notify": "Class[web]"}},
                {"type": "File", "title": "/etc/b", "parameters": {"noop": true}},
                {"type": "Exec", "title": "Y"},
                {"type": "Exec", "title": "Z", "parameters": {"subscribe": [["File[/etc/b]", "Exec[Y]"]]}},
                {"type": "Web::Site", "title": "x/y"},
                {"type": "File", "title": "/etc/c"},
            ],
            "edges": [
                {"source": "Stage[main]", "target": "Class[main]"}, {"source": "Class[main]", "target": "Class[Web]"},
                {"source": "Class[Web]", "target": "Web::Site[x/y]"}, {"source": "Web::Site[x/y]", "target": "File[/etc/c]"},
            ],
        }))
    }

    #[test]
    fn notify_and_subscribe_give_the_same_relations() {
        let relations = relations();
        assert_eq!(relations.notify_targets("File[/etc/a]"), ["Class[Web]"]);
        assert_eq!(relations.notify_targets("Class[web]"), ["Exec[Y]"]);
        assert_eq!(relations.notify_targets("File[/etc/b]"), ["Exec[Z]"]);
        assert_eq!(relations.notify_targets("Exec[Z]"), [""; 0]);
        assert!(relations.is_noop("File[/etc/b]") && !relations.is_noop("Exec[Y]"));
        assert_eq!(
            relations.container_chain("File[/etc/c]"),
            ["Web::Site[x/y]", "Class[Web]", "Class[main]", "Stage[main]"]
        );
        assert!(relations.is_container("Class[Main]") && !relations.is_container("Exec[Y]"));
    }

    #[test]
    fn log_source_is_mapped_to_its_resource() {
        let relations = relations();
        for (place, resource) in [
            ("/Stage[main]/Web/Web::Site[x/y]/File[/etc/c]", "File[/etc/c]"),
            ("/Stage[main]/Main/File[/etc/a]", "File[/etc/a]"),
            ("/Stage[main]/Main/Exec[unknown]", "Exec[unknown]"),
            ("Class[Web]", "Class[Web]"),
            ("Puppet", "Puppet"),
        ] {
            assert_eq!(relations.resource_for_source(place), resource);
        }
    }

    #[test]
    fn container_cycles_are_cut_at_the_maximum_depth() {
        let ring = json!({"resources": [], "edges": [{"source": "A[x]", "target": "B[x]"}, {"source": "B[x]", "target": "A[x]"}]});
        assert_eq!(
            CatalogRelations::from_catalog(&ring).container_chain("A[x]").len(),
            super::MAX_CONTAINER_DEPTH
        );
    }
}
