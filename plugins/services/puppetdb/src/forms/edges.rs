//! The edges of a catalog: containment, and the relations that parameters of resources name.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::values::clean_text;

/// The parameters that are relations, what an edge calls them, and whether their resource is managed first.
const RELATIONS: [(&str, &str, bool); 4] = [
    ("before", "before", true),
    ("require", "required-by", false),
    ("notify", "notifies", true),
    ("subscribe", "subscription-of", false),
];
const CONTAINMENT: &str = "contains";

/// Why a relation is no edge. `PuppetDB` would discard the whole catalog.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EdgeError {
    /// Not a reference to a resource.
    #[error("{parameter} of {resource} is not a reference as `File[/etc/motd]`: {reference}")]
    NotAReference {
        /// The resource that names it.
        resource: String,
        /// The parameter, or `edges`.
        parameter: &'static str,
        /// What it says.
        reference: String,
    },
    /// The resource is not in the catalog.
    #[error("{parameter} of {resource} names {reference}, which is not in the catalog")]
    MissingResource {
        /// The resource that names it.
        resource: String,
        /// The parameter, or `edges`.
        parameter: &'static str,
        /// The resource that is missing.
        reference: String,
    },
}

/// A resource by type and title.
type ResourceName = (String, String);

/// Source, target and kind of an edge.
type Edge = (ResourceName, ResourceName, &'static str);

/// The resources of a catalog by their names and aliases.
#[derive(Debug, Default)]
pub(super) struct ResourceTable {
    names: BTreeSet<ResourceName>,
    aliases: BTreeMap<ResourceName, ResourceName>,
}

impl ResourceTable {
    /// Adds a resource in the form of `PuppetDB`; `false` if there is one of this name.
    pub(super) fn add_resource(&mut self, resource: &Map<String, Value>) -> bool {
        let name = name_of(resource);
        for alias in aliases_of(resource, &name) {
            self.aliases.entry((name.0.clone(), alias)).or_insert_with(|| name.clone());
        }
        self.names.insert(name)
    }

    /// The resource with this name or alias.
    fn find(&self, kind: &str, title: &str) -> Option<&ResourceName> {
        let name = (kind.to_owned(), title.to_owned());
        self.names.get(&name).or_else(|| self.aliases.get(&name))
    }
}

fn name_of(resource: &Map<String, Value>) -> ResourceName {
    let part = |key: &str| resource.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    (part("type"), part("title"))
}

/// Other names of a resource: its parameter `alias`, the value by which its type identifies it, and for a file its path without slashes at the end.
fn aliases_of(resource: &Map<String, Value>, name: &ResourceName) -> Vec<String> {
    let parameters = resource.get("parameters");
    let parameter = |key: &str| parameters.and_then(|parameters| parameters.get(key));
    let mut aliases: Vec<String> =
        flat_texts(parameter("alias")).into_iter().map(str::to_owned).collect();
    // Two resources of the type Exec may have the same command.
    let (kind, title) = name;
    if kind != "Exec" {
        let identifying = if kind == "File" { "path" } else { "name" };
        aliases.extend(parameter(identifying).and_then(Value::as_str).map(str::to_owned));
    }
    if kind == "File" {
        aliases.push(strip_slashes(title).to_owned());
        aliases.extend(
            parameter("path").and_then(Value::as_str).map(strip_slashes).map(str::to_owned),
        );
    }
    aliases
}

/// A path without slashes at its end; the root stays.
fn strip_slashes(path: &str) -> &str {
    let stripped = path.trim_end_matches('/');
    if stripped.is_empty() { path } else { stripped }
}

/// All edges, each once, sorted. Resources are in the form of `PuppetDB`.
pub(super) fn catalog_edges(
    catalog: &Map<String, Value>,
    resources: &[Map<String, Value>],
    table: &ResourceTable,
) -> Result<Vec<Value>, EdgeError> {
    let mut edges: BTreeSet<Edge> = BTreeSet::new();
    add_containment(catalog, table, &mut edges)?;
    for resource in resources {
        let name = name_of(resource);
        for (parameter, relation, is_first) in RELATIONS {
            let value = resource.get("parameters").and_then(|parameters| parameters.get(parameter));
            for reference in flat_texts(value) {
                let owner = || format!("{}[{}]", name.0, name.1);
                let other = find_reference(reference, table, parameter, owner)?.clone();
                let own = name.clone();
                edges.insert(if is_first {
                    (own, other, relation)
                } else {
                    (other, own, relation)
                });
            }
        }
    }
    Ok(edges.into_iter().map(edge_form).collect())
}

fn edge_form((source, target, relationship): Edge) -> Value {
    json!({
        "source": {"type": source.0, "title": source.1},
        "target": {"type": target.0, "title": target.1},
        "relationship": relationship,
    })
}

/// The edges that the catalog lists. Those of virtual resources are left out with them.
fn add_containment(
    catalog: &Map<String, Value>,
    table: &ResourceTable,
    edges: &mut BTreeSet<Edge>,
) -> Result<(), EdgeError> {
    let resources = catalog.get("resources").and_then(Value::as_array).into_iter().flatten();
    let hidden: BTreeSet<String> =
        resources.filter(|resource| is_virtual(resource)).filter_map(reference_of).collect();
    let listed = catalog.get("edges").and_then(Value::as_array).into_iter().flatten();
    for edge in listed {
        let ends = ["source", "target"].map(|end| edge.get(end).and_then(end_text));
        let [source, target] = ends.map(Option::unwrap_or_default);
        if hidden.contains(&source) || hidden.contains(&target) {
            continue;
        }
        let owner = || format!("{source} -> {target}");
        let found = |end: &str| find_reference(end, table, "edges", owner).cloned();
        edges.insert((found(&source)?, found(&target)?, CONTAINMENT));
    }
    Ok(())
}

/// A virtual resource is not in the catalog of the node. Puppet's own catalogs have none.
pub(super) fn is_virtual(resource: &Value) -> bool {
    resource.get("virtual").and_then(Value::as_bool).unwrap_or_default()
}

/// The end of an edge: a reference, or a map of type and title.
fn end_text(end: &Value) -> Option<String> {
    match end {
        Value::String(text) => Some(clean_text(text)),
        other => reference_of(other),
    }
}

fn reference_of(resource: &Value) -> Option<String> {
    let part = |key: &str| resource.get(key).and_then(Value::as_str).map(clean_text);
    Some(format!("{}[{}]", part("type")?, part("title")?))
}

fn find_reference<'a>(
    reference: &str,
    table: &'a ResourceTable,
    parameter: &'static str,
    owner: impl Fn() -> String,
) -> Result<&'a ResourceName, EdgeError> {
    let Some((kind, title)) = split_reference(reference).filter(|(kind, _)| is_type_name(kind))
    else {
        let (resource, reference) = (owner(), reference.to_owned());
        return Err(EdgeError::NotAReference { resource, parameter, reference });
    };
    let stripped = if kind == "File" { strip_slashes(title) } else { title };
    table.find(kind, title).or_else(|| table.find(kind, stripped)).ok_or_else(|| {
        let (resource, reference) = (owner(), reference.to_owned());
        EdgeError::MissingResource { resource, parameter, reference }
    })
}

/// Type and title of a reference. A title may have brackets in it.
pub(super) fn split_reference(reference: &str) -> Option<(&str, &str)> {
    reference.strip_suffix(']')?.split_once('[')
}

/// A name as `Site::Vhost`: each part begins with a capital letter, and has none after it.
fn is_type_name(name: &str) -> bool {
    name.split("::").all(|part| {
        let mut characters = part.chars();
        characters.next().is_some_and(|first| first.is_ascii_uppercase())
            && characters.all(|character| {
                character.is_ascii_lowercase()
                    || character.is_ascii_digit()
                    || matches!(character, '_' | '-')
            })
    })
}

/// The texts of a value, in lists within lists, too.
fn flat_texts(value: Option<&Value>) -> Vec<&str> {
    match value {
        Some(Value::String(text)) => vec![text],
        Some(Value::Array(items)) => items.iter().flat_map(|item| flat_texts(Some(item))).collect(),
        _ => Vec::new(),
    }
}
