//! What is inside arrays and hashes, from the schema of an input or output: one line for each field.
//!
//! A hash that occurs several times is shown once, so recursive schemas end. The limits bound what a schema of others can cost.

use crate::ordered_json::{OrderedJson, OrderedMap};
use crate::value_schema::{ValueSchema, reference_name, resolve, type_names};
use crate::value_type::ValueType;

/// Deepest level of fields. Deeper ones are in the schema only.
const MAX_LEVELS: usize = 6;
/// Most references, lists and alternatives in each other that are followed to the type of one field.
const MAX_STEPS: usize = 5;
/// Most alternatives of a type.
const MAX_ALTERNATIVES: usize = 5;
/// Most choices that are named.
const MAX_CHOICES: usize = 12;

type Properties = OrderedMap<OrderedJson>;

/// A field of a hash inside a value.
#[derive(Debug)]
pub(super) struct ContentField {
    /// How many hashes are around it: 1 for a field of the value, or of the items of an array.
    pub(super) depth: usize,
    pub(super) name: String,
    /// Its type in words.
    pub(super) kind: String,
    /// Empty if there is none.
    pub(super) description: String,
}

/// The type of an input or output, as `array of string`.
pub(super) fn describe_type(value_type: ValueType, schema: Option<&ValueSchema>) -> String {
    let Some(schema) = schema else {
        return value_type.to_string();
    };
    let root = schema.json();
    let kind = describe(&root, &root, MAX_STEPS);
    if kind.starts_with(value_type.name()) { kind } else { format!("{value_type}: {kind}") }
}

/// The fields inside a value, those of a hash directly below its own line.
pub(super) fn list_contents(schema: &ValueSchema) -> Vec<ContentField> {
    let root = schema.json();
    let mut list = ContentList { root: &root, shown: Vec::new(), fields: Vec::new() };
    for hash in inner_hashes(&root, &root) {
        list.add_hash(hash, 1, "");
    }
    list.fields
}

struct ContentList<'a> {
    root: &'a OrderedJson,
    /// Hashes, each with the name of the field that has it.
    shown: Vec<(&'a Properties, &'a str)>,
    fields: Vec<ContentField>,
}

impl<'a> ContentList<'a> {
    fn add_hash(&mut self, hash: &'a Properties, depth: usize, owner: &'a str) {
        if depth > MAX_LEVELS || self.owner(hash).is_some() {
            return;
        }
        self.shown.push((hash, owner));
        for (name, field) in &hash.0 {
            let hashes = inner_hashes(self.root, field);
            let earlier = hashes.iter().find_map(|hash| self.owner(hash));
            let kind = describe(self.root, field, MAX_STEPS);
            let kind = match earlier {
                Some("") => format!("{kind}, as above"),
                Some(earlier) => format!("{kind}, as {earlier}"),
                None => kind,
            };
            let description = field.get("description").and_then(OrderedJson::as_str);
            let description = description.unwrap_or_default().to_owned();
            self.fields.push(ContentField { depth, name: name.clone(), kind, description });
            for hash in hashes {
                self.add_hash(hash, depth + 1, name);
            }
        }
    }

    /// The field below which the hash is shown.
    fn owner(&self, hash: &Properties) -> Option<&'a str> {
        let found = self.shown.iter().find(|(shown, _)| std::ptr::eq(*shown, hash));
        found.map(|(_, owner)| *owner)
    }
}

/// The hashes with named fields in a value: the value itself, the items of its lists and maps, and its alternatives.
fn inner_hashes<'a>(root: &'a OrderedJson, value: &'a OrderedJson) -> Vec<&'a Properties> {
    let mut found = Vec::new();
    collect_hashes(root, value, MAX_STEPS, &mut found);
    found
}

fn collect_hashes<'a>(
    root: &'a OrderedJson,
    value: &'a OrderedJson,
    steps: usize,
    found: &mut Vec<&'a Properties>,
) {
    let Some(steps) = steps.checked_sub(1) else {
        return;
    };
    let hash = value.get("properties").and_then(OrderedJson::as_object);
    found.extend(hash.filter(|hash| !found.iter().any(|known| std::ptr::eq(*known, *hash))));
    let lists = ["items", "additionalProperties"].into_iter().filter_map(|key| value.get(key));
    let referred = reference_name(value).map(|_| resolve(root, value));
    for inner in referred.into_iter().chain(lists).chain(alternatives(value)) {
        collect_hashes(root, inner, steps, found);
    }
}

fn alternatives(value: &OrderedJson) -> impl Iterator<Item = &OrderedJson> {
    let keys = ["anyOf", "oneOf", "allOf", "prefixItems"].into_iter();
    let lists = keys.filter_map(|key| value.get(key)?.as_list());
    lists.flatten().take(MAX_ALTERNATIVES)
}

/// A type in words.
fn describe(root: &OrderedJson, value: &OrderedJson, steps: usize) -> String {
    let Some(steps) = steps.checked_sub(1) else {
        return ValueType::Any.to_string();
    };
    if reference_name(value).is_some() {
        return describe(root, resolve(root, value), steps);
    }
    if let Some(choices) = list_choices(value) {
        return describe_choices(&choices);
    }
    let inner = |key: &str| value.get(key).map(|inner| describe(root, inner, steps));
    let named = value.get("type").map(type_names).unwrap_or_default();
    let mut kinds: Vec<String> = named
        .into_iter()
        .map(|name| match name {
            "array" => describe_container("array", inner("items")),
            "object" if value.get("properties").is_none() => {
                describe_container("hash", inner("additionalProperties"))
            }
            "object" => "hash".to_owned(),
            other => other.to_owned(),
        })
        .collect();
    if kinds.is_empty() {
        kinds = alternatives(value).map(|inner| describe(root, inner, steps)).collect();
        kinds.dedup();
    }
    if kinds.is_empty() { ValueType::Any.to_string() } else { kinds.join(" or ") }
}

/// `array of string`; only `array` if the items are of any type.
fn describe_container(container: &str, items: Option<String>) -> String {
    match items {
        None => container.to_owned(),
        Some(items) if items == ValueType::Any.name() => container.to_owned(),
        Some(items) if items.contains(" or ") => format!("{container} of ({items})"),
        Some(items) => format!("{container} of {items}"),
    }
}

fn describe_choices(choices: &[String]) -> String {
    let more = if choices.len() > MAX_CHOICES { ", …" } else { "" };
    let named: Vec<&str> = choices.iter().take(MAX_CHOICES).map(String::as_str).collect();
    match named[..] {
        [only] => only.to_owned(),
        _ => format!("one of {}{more}", named.join(", ")),
    }
}

/// The values that an enumeration permits. Each value can be an alternative with a description of its own.
fn list_choices(value: &OrderedJson) -> Option<Vec<String>> {
    let only = value.get("const").map(std::slice::from_ref);
    if let Some(choices) = value.get("enum").and_then(OrderedJson::as_list).or(only) {
        return Some(choices.iter().map(choice_text).collect());
    }
    let alternatives = value.get("oneOf").and_then(OrderedJson::as_list)?;
    let choices: Option<Vec<Vec<String>>> = alternatives.iter().map(list_choices).collect();
    choices.map(|choices| choices.concat())
}

fn choice_text(choice: &OrderedJson) -> String {
    let json = || serde_json::to_string(choice).unwrap_or_default();
    choice.as_str().map_or_else(json, str::to_owned)
}
