//! Prepares the state of a resource for a reply: declared properties only, sensitive ones redacted.

use muster_engine::ResourceEngine;
use muster_engine::plan::REDACTED;
use muster_engine::resource::ResourceValues;
use muster_engine::schema::TypeSchema;
use serde_json::{Map, Value, json};

/// The properties that the type declares; omits internal values of the type.
pub(crate) fn declared_properties(
    engine: &ResourceEngine,
    type_name: &str,
    found: &ResourceValues,
) -> Map<String, Value> {
    let schema = engine.type_schema(type_name).ok();
    let declared = schema.into_iter().flat_map(TypeSchema::properties);
    declared
        .filter_map(|property| {
            let value = found.get(property.name)?;
            let json_value = if property.sensitive { json!(REDACTED) } else { json!(value) };
            Some((property.name.to_owned(), json_value))
        })
        .collect()
}
