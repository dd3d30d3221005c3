//! What `rpc` prints, held against the schemas that are published for it.
//!
//! Users' readers leave out what they do not know, so published objects are open: fields may be added. Here they are
//! closed as well, so that a field that nobody published is found, too.

use std::path::PathBuf;

use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::Value;

/// Which readers a document is held against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// A user's, who leaves out what is not known.
    Tolerant,
    /// One who knows this version and nothing else.
    Strict,
}

/// The names of all published schemas.
pub fn names() -> Vec<String> {
    let files = std::fs::read_dir(directory()).unwrap();
    let mut names: Vec<String> = files
        .filter_map(|file| {
            let name = file.unwrap().file_name().into_string().unwrap();
            name.strip_suffix(".json").map(ToOwned::to_owned)
        })
        .collect();
    names.sort();
    names
}

/// Holds a document against the schema of this name; says what is wrong with it, and where.
pub fn check(name: &str, document: &Value, reader: Reader) -> Result<(), String> {
    let file = directory().join(format!("{name}.json"));
    let text = std::fs::read(&file).unwrap_or_else(|_| panic!("nobody has published {name}"));
    let mut schema: Value = serde_json::from_slice(&text).unwrap();
    if reader == Reader::Strict {
        close(&mut schema);
    }
    let mut schemas = Schemas::new();
    let compiled = compile(schema, &mut schemas);
    schemas.validate(document, compiled).map_err(|error| format!("{name}: {error:#}\n{document:#}"))
}

fn compile(schema: Value, schemas: &mut Schemas) -> SchemaIndex {
    let place = "file:///published.json";
    let mut compiler = Compiler::new();
    compiler.add_resource(place, schema).unwrap();
    compiler.compile(place, schemas).unwrap()
}

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/schemas")
}

/// Closes an object, and everything in it, to fields that are not in the schema.
fn close(schema: &mut Value) {
    let Some(words) = schema.as_object_mut() else {
        return;
    };
    let has_fields = words.contains_key("properties");
    let mut has_variants = false;
    for word in ["oneOf", "anyOf", "allOf"] {
        let variants = words.get_mut(word).and_then(Value::as_array_mut);
        for variant in variants.into_iter().flatten() {
            has_variants = true;
            if has_fields {
                // These are of the same object: only all of them together know all of its fields.
                close_below(variant);
            } else {
                close(variant);
            }
        }
    }
    close_below(schema);
    let Some(words) = schema.as_object_mut() else {
        return;
    };
    if has_fields && !words.contains_key("additionalProperties") {
        let word = if has_variants { "unevaluatedProperties" } else { "additionalProperties" };
        words.insert(word.to_owned(), false.into());
    }
}

/// Closes what an object's fields and a list's elements are.
fn close_below(schema: &mut Value) {
    for word in ["properties", "patternProperties"] {
        let fields = schema.get_mut(word).and_then(Value::as_object_mut);
        for field in fields.into_iter().flat_map(|fields| fields.values_mut()) {
            close(field);
        }
    }
    for word in ["items", "additionalProperties"] {
        if let Some(below) = schema.get_mut(word) {
            close(below);
        }
    }
    let items = schema.get_mut("prefixItems").and_then(Value::as_array_mut);
    items.into_iter().flatten().for_each(close);
}
