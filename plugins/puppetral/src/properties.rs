//! What was found on the machine, as it may be shown: properties only, sensitive ones hidden.

use muster_engine::ResourceEngine;
use muster_engine::plan::REDACTED;
use muster_engine::resource::ResourceValues;
use muster_engine::schema::TypeSchema;
use serde_json::{Map, Value, json};

/// The properties that the type declares. What a type notes for itself beside them is left out.
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
            let shown = if property.sensitive {
                json!(REDACTED)
            } else {
                json!(value)
            };
            Some((property.name.to_owned(), shown))
        })
        .collect()
}
