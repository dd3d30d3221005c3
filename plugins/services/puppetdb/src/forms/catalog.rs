//! A catalog: the command `replace catalog`, version 9, of a catalog as an agent reads it.
//!
//! Resources have no `aliases`: with them, `PuppetDB` 7.12 discards each later catalog of a node that differs.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::edges::{EdgeError, ResourceTable, catalog_edges, is_virtual};
use super::rich_data::{is_sensitive, plain_value};
use super::source::FormSource;
use super::values::{
    clean_text, format_time, line_number, nullable_text, parse_id, text, text_or_number,
};

/// The parameters whose lists have no order.
const UNORDERED_PARAMETERS: [&str; 8] =
    ["alias", "audit", "before", "check", "notify", "require", "subscribe", "tag"];

/// Why `PuppetDB` would not store a catalog.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogFormError {
    /// A resource without type or title.
    #[error("a resource of the catalog has no type or title: resource {position}")]
    UnnamedResource {
        /// Its position in the list, from 1.
        position: usize,
    },
    /// Two resources have the same name.
    #[error("the catalog has {reference} twice")]
    DuplicateResource {
        /// The resource.
        reference: String,
    },
    /// A relation that cannot be an edge.
    #[error("a relation of the catalog is invalid")]
    Edge(#[from] EdgeError),
}

/// The body of `replace catalog`. `run`: the run that the catalog was compiled for; `None` if it was compiled ahead.
pub fn catalog_form(
    catalog: &Map<String, Value>,
    run: Option<Uuid>,
    source: FormSource<'_>,
) -> Result<Map<String, Value>, CatalogFormError> {
    let all = catalog.get("resources").and_then(Value::as_array).into_iter().flatten();
    let present = all.filter(|resource| !is_virtual(resource));
    let mut table = ResourceTable::default();
    let mut resources = Vec::new();
    for (index, resource) in present.enumerate() {
        let unnamed = || CatalogFormError::UnnamedResource { position: index + 1 };
        let resource = resource_form(resource).ok_or_else(unnamed)?;
        if !table.add_resource(&resource) {
            let part = |key: &str| resource.get(key).and_then(Value::as_str).unwrap_or_default();
            let reference = format!("{}[{}]", part("type"), part("title"));
            return Err(CatalogFormError::DuplicateResource { reference });
        }
        resources.push(resource);
    }
    let edges = catalog_edges(catalog, &resources, &table)?;
    let form = json!({
        "certname": clean_text(source.certname),
        "version": text_or_number(catalog.get("version")).unwrap_or_default(),
        "environment": clean_text(source.environment),
        "transaction_uuid": run.map(|run| run.to_string()),
        "catalog_uuid": parse_id(catalog.get("catalog_uuid")).map(|id| id.to_string()),
        "code_id": nullable_text(catalog.get("code_id")),
        "job_id": Value::Null,
        "producer_timestamp": format_time(source.producer_timestamp),
        "producer": clean_text(source.producer),
        "edges": edges,
        "resources": resources,
    });
    match form {
        Value::Object(map) => Ok(map),
        _ => Ok(Map::new()),
    }
}

fn resource_form(resource: &Value) -> Option<Map<String, Value>> {
    let kind = text(resource.get("type"))?;
    let title = title_text(resource.get("title"))?;
    let mut form = Map::new();
    form.insert("type".to_owned(), kind.into());
    form.insert("title".to_owned(), title.into());
    let is_exported = resource.get("exported").and_then(Value::as_bool).unwrap_or_default();
    form.insert("exported".to_owned(), is_exported.into());
    if let Some(file) = text(resource.get("file")) {
        form.insert("file".to_owned(), file.into());
    }
    if let Some(line) = line_number(resource.get("line")) {
        form.insert("line".to_owned(), line.into());
    }
    form.insert("tags".to_owned(), tags(resource.get("tags")));
    form.insert("parameters".to_owned(), Value::Object(parameters(resource)));
    Some(form)
}

/// Titles may be numbers or flags in a catalog, and are texts in `PuppetDB`.
fn title_text(title: Option<&Value>) -> Option<String> {
    match title? {
        Value::Bool(title) => Some(title.to_string()),
        title => text_or_number(Some(title)),
    }
}

/// Lower-case tags. `PuppetDB` discards a catalog with a tag that it does not accept, so such a tag is left out.
fn tags(value: Option<&Value>) -> Value {
    let tags = value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let tags: BTreeSet<String> =
        tags.map(str::to_lowercase).filter(|tag| is_valid_tag(tag)).collect();
    tags.into_iter().collect()
}

fn is_valid_tag(tag: &str) -> bool {
    let is_word = |character: char| {
        (character.is_alphanumeric() && !character.is_uppercase()) || character == '_'
    };
    let mut characters = tag.chars();
    characters.next().is_some_and(is_word)
        && characters.all(|character| is_word(character) || matches!(character, ':' | '.' | '-'))
}

/// The parameters without sensitive ones.
fn parameters(resource: &Value) -> Map<String, Value> {
    let sensitive = resource.get("sensitive_parameters").and_then(Value::as_array);
    let is_listed = |name: &str| sensitive.into_iter().flatten().any(|listed| listed == name);
    let parameters = resource.get("parameters").and_then(Value::as_object).into_iter().flatten();
    let public = parameters.filter(|(name, value)| !is_listed(name) && !is_sensitive(value));
    let plain = public.map(|(name, value)| {
        let mut value = plain_value(value);
        if UNORDERED_PARAMETERS.contains(&name.as_str())
            && let Value::Array(items) = &mut value
        {
            items.sort_by_key(ToString::to_string);
        }
        (clean_text(name), value)
    });
    plain.collect()
}
