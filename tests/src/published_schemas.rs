//! Validates what `rpc` prints against the published schemas.
//!
//! The readers of users ignore unknown fields, so published objects are open: fields may be added. Strict mode closes
//! them, so that unpublished fields are reported too.

use std::path::PathBuf;

use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::Value;

/// How a document is validated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaMode {
    /// As a user's reader does, which ignores unknown fields.
    Tolerant,
    /// Unknown fields are errors.
    Strict,
}

/// The names of all published schemas.
pub fn schema_names() -> Vec<String> {
    let files = std::fs::read_dir(schema_directory()).unwrap();
    let mut names: Vec<String> = files
        .filter_map(|file| {
            let name = file.unwrap().file_name().into_string().unwrap();
            name.strip_suffix(".json").map(ToOwned::to_owned)
        })
        .collect();
    names.sort();
    names
}

/// Validates a document against the schema of this name; the error states the violation and its path.
pub fn check_schema(name: &str, document: &Value, reader: SchemaMode) -> Result<(), String> {
    let file = schema_directory().join(format!("{name}.json"));
    let text = std::fs::read(&file).unwrap_or_else(|_| panic!("no schema is published for {name}"));
    let mut schema: Value = serde_json::from_slice(&text).unwrap();
    if reader == SchemaMode::Strict {
        close_schema(&mut schema);
    }
    let mut schemas = Schemas::new();
    let compiled = compile(schema, &mut schemas);
    schemas.validate(document, compiled).map_err(|error| format!("{name}: {error:#}\n{document:#}"))
}

/// Validates a document against a schema that is not published as a file; unknown fields are errors.
pub fn check_against(mut schema: Value, document: &Value) -> Result<(), String> {
    close_schema(&mut schema);
    let mut schemas = Schemas::new();
    let compiled = compile(schema, &mut schemas);
    schemas.validate(document, compiled).map_err(|error| format!("{error:#}\n{document:#}"))
}

fn compile(schema: Value, schemas: &mut Schemas) -> SchemaIndex {
    let url = "file:///published.json";
    let mut compiler = Compiler::new();
    compiler.add_resource(url, schema).unwrap();
    compiler.compile(url, schemas).unwrap()
}

fn schema_directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/schemas")
}

/// Closes an object and everything in it to fields that are not in the schema.
fn close_schema(schema: &mut Value) {
    let Some(keywords) = schema.as_object_mut() else {
        return;
    };
    let has_fields = keywords.contains_key("properties");
    let mut has_variants = false;
    for keyword in ["oneOf", "anyOf", "allOf"] {
        let variants = keywords.get_mut(keyword).and_then(Value::as_array_mut);
        for variant in variants.into_iter().flatten() {
            has_variants = true;
            if has_fields {
                // The variants describe the same object; only all of them together list all its fields.
                close_children(variant);
            } else {
                close_schema(variant);
            }
        }
    }
    close_children(schema);
    let Some(keywords) = schema.as_object_mut() else {
        return;
    };
    if has_fields && !keywords.contains_key("additionalProperties") {
        let keyword = if has_variants { "unevaluatedProperties" } else { "additionalProperties" };
        keywords.insert(keyword.to_owned(), false.into());
    }
}

/// Closes the schemas of an object's fields and of a list's elements.
fn close_children(schema: &mut Value) {
    for keyword in ["properties", "patternProperties"] {
        let fields = schema.get_mut(keyword).and_then(Value::as_object_mut);
        for field in fields.into_iter().flat_map(|fields| fields.values_mut()) {
            close_schema(field);
        }
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(below) = schema.get_mut(keyword) {
            close_schema(below);
        }
    }
    let items = schema.get_mut("prefixItems").and_then(Value::as_array_mut);
    items.into_iter().flatten().for_each(close_schema);
}
