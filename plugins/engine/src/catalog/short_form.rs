//! The short catalog form: a hand-written list of resources in TOML or JSON.
//!
//! ```toml
//! [[resource]]
//! type = "file"
//! title = "/etc/motd"
//! content = "Hello\n"
//! notify = "Exec[announce]"
//! ```
//!
//! An attribute that has the name of a key of the table is written below `params`, as in `params.type = "ssh-ed25519"`; so can be any other.
//!
//! In JSON, the same tables are elements of one array. `name` is accepted for `title`. All resources belong to class `main`, like
//! top-level resources in Puppet.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::{Map, Value as Json};

use super::{Catalog, CatalogEntry, CatalogError, ResourceReference};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ShortCatalogTables {
    #[serde(default)]
    version: Option<Json>,
    #[serde(default)]
    resource: Vec<Map<String, Json>>,
}

/// Parses a JSON array of resources.
pub fn parse_json(bytes: &[u8], host: &str) -> Result<Catalog, CatalogError> {
    let resources = serde_json::from_slice(bytes)
        .map_err(|source| CatalogError::Malformed { format: "JSON", source: source.into() })?;
    build_catalog(host, Json::from(0), resources)
}

/// Parses TOML with `[[resource]]` tables.
pub fn parse_toml(bytes: &[u8], host: &str) -> Result<Catalog, CatalogError> {
    let malformed = |source| CatalogError::Malformed { format: "TOML", source };
    let text = std::str::from_utf8(bytes).map_err(|source| malformed(source.into()))?;
    let tables: ShortCatalogTables =
        toml::from_str(text).map_err(|source| malformed(source.into()))?;
    build_catalog(host, tables.version.unwrap_or_else(|| Json::from(0)), tables.resource)
}

fn build_catalog(
    host: &str,
    version: Json,
    resources: Vec<Map<String, Json>>,
) -> Result<Catalog, CatalogError> {
    let mut catalog = Catalog {
        name: host.to_owned(),
        version,
        environment: "production".to_owned(),
        uuid: None,
        code_id: None,
        classes: Vec::new(),
        entries: Vec::with_capacity(resources.len() + 2),
        warnings: Vec::new(),
    };
    for (type_name, container) in [("stage", None), ("class", Some(0))] {
        let mut entry = CatalogEntry::new(ResourceReference::new(type_name, "main"), true);
        entry.add_tag(type_name);
        entry.container = container;
        catalog.entries.push(entry);
    }
    let mut seen = HashSet::new();
    for (index, attributes) in resources.into_iter().enumerate() {
        let mut entry = build_entry(index, attributes)?;
        entry.container = Some(1);
        if !seen.insert(entry.reference.clone()) {
            let reference = entry.reference.to_string();
            return Err(CatalogError::Duplicate { reference, locations: None });
        }
        catalog.entries.push(entry);
    }
    Ok(catalog)
}

fn build_entry(
    index: usize,
    mut attributes: Map<String, Json>,
) -> Result<CatalogEntry, CatalogError> {
    let location = format!("resource {} of the list", index + 1);
    let invalid = |key: &str, problem: &str| CatalogError::Key {
        location: location.clone(),
        key: key.to_owned(),
        problem: problem.to_owned(),
    };
    let params = attributes.remove("params");
    let type_name = match attributes.remove("type") {
        Some(Json::String(name)) => name,
        Some(_) => return Err(invalid("type", "must be a string")),
        None => return Err(invalid("type", "is missing, must be file, package, service, ...")),
    };
    let title = match attributes.remove("title").or_else(|| attributes.get("name").cloned()) {
        Some(Json::String(title)) => title,
        Some(_) => return Err(invalid("title", "must be a string")),
        None => return Err(invalid("title", "is missing")),
    };
    // Round trip through the reference parser rejects titles that no reference could name.
    let reference: ResourceReference = format!("{type_name}[{title}]").parse()?;
    let mut entry = CatalogEntry::new(reference, false);
    entry.add_tag(&type_name);
    if is_tag(&title) {
        entry.add_tag(&title);
    }
    entry.add_tag("class");
    let attributes =
        add_params(attributes, params).map_err(|problem| invalid("params", problem))?;
    match attributes.get("tag") {
        Some(Json::String(tag)) => entry.add_tag(tag),
        Some(Json::Array(tags)) => {
            tags.iter().filter_map(Json::as_str).for_each(|tag| entry.add_tag(tag));
        }
        _ => {}
    }
    entry.attributes = attributes;
    Ok(entry)
}

/// Adds the attributes below `params`.
fn add_params(
    mut attributes: Map<String, Json>,
    params: Option<Json>,
) -> Result<Map<String, Json>, &'static str> {
    let params = match params {
        None => Map::new(),
        Some(Json::Object(params)) => params,
        Some(_) => return Err("must be a table of attributes"),
    };
    for (name, value) in params {
        if attributes.insert(name, value).is_some() {
            return Err("contains an attribute that the resource also has outside of it");
        }
    }
    Ok(attributes)
}

/// Puppet's syntax rule for tags.
fn is_tag(text: &str) -> bool {
    let is_word_char = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.starts_with(is_word_char)
        && text.chars().all(|c| is_word_char(c) || matches!(c, ':' | '.' | '-'))
}
