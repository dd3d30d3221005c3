//! Parser for Puppet's catalog format, as sent by a server and printed by `puppet catalog compile` (`catalog_format` 1 and 2).
//!
//! Unknown keys are reported as warnings and ignored; invalid values are rejected without guessing.

use std::collections::{BTreeSet, HashMap};

use serde::Deserialize;
use serde_json::{Map, Value as Json};

use super::static_sources::{PlainMetadata, RecursiveMetadata, parse_static_sources};
use super::{Catalog, CatalogEntry, CatalogError, ResourceReference, rich_data};
use crate::schema::RELATION_METAPARAMETERS;

#[derive(Deserialize)]
struct PuppetCatalogDocument {
    #[serde(default)]
    catalog_format: u64,
    #[serde(default)]
    name: String,
    #[serde(default)]
    version: Json,
    #[serde(default)]
    environment: Option<String>,
    catalog_uuid: Option<String>,
    code_id: Option<String>,
    #[serde(default)]
    classes: Vec<String>,
    resources: Vec<PuppetCatalogResource>,
    #[serde(default)]
    edges: Vec<ContainmentEdge>,
    metadata: Option<PlainMetadata>,
    recursive_metadata: Option<RecursiveMetadata>,
}

#[derive(Deserialize)]
struct PuppetCatalogResource {
    #[serde(rename = "type")]
    type_name: String,
    title: String,
    kind: Option<String>,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    exported: bool,
    file: Option<String>,
    line: Option<u64>,
    #[serde(default)]
    parameters: Map<String, Json>,
    #[serde(default)]
    sensitive_parameters: Vec<String>,
    #[serde(flatten)]
    rest: Map<String, Json>,
}

#[derive(Deserialize)]
struct ContainmentEdge {
    source: String,
    target: String,
}

/// Rejects duplicates, edges with unknown targets, and containers that contain themselves.
pub fn parse_puppet_json(bytes: &[u8]) -> Result<Catalog, CatalogError> {
    let document: PuppetCatalogDocument = serde_json::from_slice(bytes).map_err(|source| {
        CatalogError::Malformed { format: "Puppet catalog JSON", source: source.into() }
    })?;
    let mut catalog = Catalog {
        name: document.name,
        version: document.version,
        environment: document.environment.unwrap_or_else(|| "production".to_owned()),
        uuid: document.catalog_uuid,
        code_id: document.code_id,
        classes: document.classes,
        entries: Vec::with_capacity(document.resources.len()),
        warnings: Vec::new(),
    };
    let plain = document.metadata.unwrap_or_default();
    let mut sources =
        parse_static_sources(&plain, &document.recursive_metadata.unwrap_or_default())?;
    let members = ContainerRules {
        has_kinds: document.catalog_format >= 2,
        sources: document.edges.iter().map(|edge| edge.source.as_str()).collect(),
    };
    let mut indices = HashMap::new();
    for item in document.resources {
        let mut entry = build_entry(item, &members, &mut catalog.warnings)?;
        if entry.reference.type_name == "file" {
            entry.static_sources = sources.remove(&entry.reference.title);
        }
        if indices.insert(entry.reference.clone(), catalog.entries.len()).is_some() {
            let reference = entry.reference.to_string();
            return Err(CatalogError::Duplicate { reference, locations: None });
        }
        catalog.entries.push(entry);
    }
    link_containers(&mut catalog, &document.edges, &indices)?;
    Ok(catalog)
}

/// Distinguishes containers, such as classes and defines, from resources of a type.
struct ContainerRules<'a> {
    /// Whether the catalog names each resource of a type as such: then every other one is a container.
    has_kinds: bool,
    /// The resources that have members.
    sources: BTreeSet<&'a str>,
}

fn build_entry(
    item: PuppetCatalogResource,
    containers: &ContainerRules<'_>,
    warnings: &mut Vec<String>,
) -> Result<CatalogEntry, CatalogError> {
    let reference_text = format!("{}[{}]", item.type_name, item.title);
    // Also validates the text as a reference, because otherwise no other resource could refer to it.
    let reference: ResourceReference = reference_text.parse()?;
    let is_class = matches!(reference.type_name.as_str(), "class" | "stage" | "node");
    let is_container = match item.kind.as_deref() {
        Some("class" | "defined_type") => true,
        Some("compilable_type") => is_class,
        Some("unknown") if containers.has_kinds => true,
        // Catalog format 1 has no kind; a define is recognized by its members.
        Some("unknown") | None => {
            is_class
                || reference.type_name.contains("::")
                || containers.sources.contains(reference_text.as_str())
        }
        Some(other) => {
            let problem =
                format!("is `{other}`, must be compilable_type, class, defined_type or unknown");
            let (location, key) = (reference_text, "kind".to_owned());
            return Err(CatalogError::Key { location, key, problem });
        }
    };
    if let Some(key) = item.rest.keys().next() {
        warnings.push(format!("{reference_text}: the key `{key}` is unknown and was ignored"));
    }
    let mut entry = CatalogEntry::new(reference, is_container);
    item.tags.iter().for_each(|tag| entry.add_tag(tag));
    (entry.file, entry.line, entry.is_virtual) = (item.file, item.line, item.exported);
    entry.sensitive.extend(item.sensitive_parameters);
    if is_container && entry.reference.type_name != "stage" {
        // Parameters of classes and defines were evaluated during compilation; only their relationships still apply.
        entry.attributes = item.parameters;
        let is_relation = |name: &str| RELATION_METAPARAMETERS.contains(&name) || name == "alias";
        entry.attributes.retain(|name, _| is_relation(name));
        return Ok(entry);
    }
    for (name, value) in item.parameters {
        let plain =
            rich_data::to_plain_value(&value).map_err(|problem| CatalogError::Unsupported {
                resource: reference_text.clone(),
                name: name.clone(),
                problem: problem.to_string(),
            })?;
        if plain.sensitive {
            entry.sensitive.insert(name.clone());
        }
        if !plain.value.is_null() {
            entry.attributes.insert(name, plain.value);
        }
    }
    Ok(entry)
}

fn link_containers(
    catalog: &mut Catalog,
    edges: &[ContainmentEdge],
    indices: &HashMap<ResourceReference, usize>,
) -> Result<(), CatalogError> {
    for edge in edges {
        let find_index = |text: &str, other: &str| {
            let reference: ResourceReference = text.parse()?;
            let found = indices.get(&reference).copied();
            found.ok_or_else(|| CatalogError::Missing {
                missing: text.to_owned(),
                resource: other.to_owned(),
            })
        };
        let source = find_index(&edge.source, &edge.target)?;
        let target = find_index(&edge.target, &edge.source)?;
        if let Some(container) = catalog.entries.get_mut(source) {
            container.is_container = true;
        }
        if let Some(member) = catalog.entries.get_mut(target) {
            member.container = Some(source);
        }
    }
    for start in 0..catalog.entries.len() {
        let mut depth = 0;
        let mut next = catalog.entries.get(start).and_then(|entry| entry.container);
        while let Some(container) = next {
            depth += 1;
            if container == start || depth > catalog.entries.len() {
                let reference = catalog.entries.get(container).map(|entry| &entry.reference);
                return Err(CatalogError::Key {
                    location: reference.map(ToString::to_string).unwrap_or_default(),
                    key: "edges".to_owned(),
                    problem: "form a cycle: the container contains itself".to_owned(),
                });
            }
            next = catalog.entries.get(container).and_then(|entry| entry.container);
        }
    }
    Ok(())
}
