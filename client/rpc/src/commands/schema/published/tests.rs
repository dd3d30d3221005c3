//! The published schemas equal those of the printed types. `UPDATE_GOLDEN=1` rewrites them; a renamed or removed field
//! then appears in the diff, and requires a new schema version.

use std::path::Path;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use crate::commands::DOCUMENTS;
use crate::commands::schema::published::PublishedSchema;

/// The schema of the output of a type, with references inlined for readability.
pub fn generate<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let settings = settings.with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    remove_ddl_keywords(&mut schema);
    schema
}

/// Removes what types of actions say for their DDL: titles of fields, and keys of ours.
fn remove_ddl_keywords(schema: &mut Value) {
    match schema {
        Value::Object(keys) => {
            let is_ddl = |key: &str, value: &Value| {
                key.starts_with("x-") || (key == "title" && value.is_string())
            };
            keys.retain(|key, value| !is_ddl(key, value));
            keys.values_mut().for_each(remove_ddl_keywords);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_ddl_keywords),
        _ => {}
    }
}

/// The published schema, made from that of its type.
fn made(published: &PublishedSchema) -> Value {
    let (name, mut schema) = (published.name, (published.generate)());
    name_itself(&mut schema, name);
    open(&mut schema);
    let root = schema.as_object_mut().unwrap();
    root.insert("$id".to_owned(), name.into());
    root.insert("title".to_owned(), name.into());
    schema
}

/// Restricts each `schema` field to the name of this schema.
fn name_itself(schema: &mut Value, name: &str) {
    if let Some(field) = schema.pointer_mut("/properties/schema") {
        *field = json!({"const": name, "description": "The name and version of this schema."});
    }
    for variant in variants(schema) {
        name_itself(variant, name);
    }
}

fn variants(schema: &mut Value) -> impl Iterator<Item = &mut Value> {
    let variants = schema.get_mut("oneOf").and_then(Value::as_array_mut);
    variants.into_iter().flatten()
}

/// Removes the ban on additional fields: a version of a schema can gain fields.
fn open(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for word in ["additionalProperties", "unevaluatedProperties"] {
                if fields.get(word) == Some(&false.into()) {
                    fields.remove(word);
                }
            }
            fields.values_mut().for_each(open);
        }
        Value::Array(values) => values.iter_mut().for_each(open),
        _ => {}
    }
}

#[test]
fn published_schemas_equal_those_of_the_types() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/schemas");
    for published in DOCUMENTS {
        let text = serde_json::to_string_pretty(&made(published)).unwrap() + "\n";
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(directory.join(published.name).with_added_extension("json"), text)
                .unwrap();
        } else {
            let name = published.name;
            assert_eq!(published.text, text, "{name}; UPDATE_GOLDEN=1 rewrites it");
        }
    }
}

#[test]
fn every_schema_file_is_listed() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/schemas");
    let files = std::fs::read_dir(directory).unwrap();
    let mut files: Vec<String> =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    let mut listed: Vec<String> =
        DOCUMENTS.iter().map(|schema| format!("{}.json", schema.name)).collect();
    files.sort();
    listed.sort();
    assert_eq!(files, listed);
}
