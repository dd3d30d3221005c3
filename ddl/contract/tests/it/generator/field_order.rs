//! The order in which the fields of a type are declared.
//!
//! A derived `Deserialize` names them in this order when it asks for a struct, except with `flatten`, when it asks for a map. Then a value of the
//! type, made from its JSON Schema, is read and written again.

use std::collections::BTreeSet;

use muster_ddl::{OrderedJson, OrderedMap};
use serde::de::value::Error;
use serde::de::{DeserializeOwned, Deserializer, Error as _, Visitor};
use serde::{Serialize, forward_to_deserialize_any};
use serde_json::{Map, Value, json};

/// The names of `properties`, the fields in the JSON Schema of `T`, in the order of their declaration.
pub(super) fn order_fields<T: Serialize + DeserializeOwned>(
    properties: &Map<String, Value>,
) -> Result<Vec<String>, String> {
    let mut declared = Vec::new();
    // The recorder gives no values, so this fails for every type.
    let _ = T::deserialize(FieldRecorder(&mut declared));
    let mut names: Vec<String> = declared.into_iter().map(str::to_owned).collect();
    if names.is_empty() && !properties.is_empty() {
        names = written_keys::<T>(properties)?;
    }
    // Aliases are among the names.
    names.retain(|name| properties.contains_key(name));
    let found: BTreeSet<&String> = names.iter().collect();
    match properties.keys().find(|name| !found.contains(name)) {
        Some(name) => Err(format!("the place of `{name}` is unknown")),
        None => Ok(names),
    }
}

/// The keys that `T` writes for a value with all fields.
fn written_keys<T: Serialize + DeserializeOwned>(
    properties: &Map<String, Value>,
) -> Result<Vec<String>, String> {
    match write_sample::<T>(properties) {
        Ok(OrderedJson::Object(OrderedMap(entries))) => {
            Ok(entries.into_iter().map(|(name, _)| name).collect())
        }
        Ok(OrderedJson::Scalar(_) | OrderedJson::List(_)) => {
            Err("the type is no object".to_owned())
        }
        Err(error) => Err(format!("the order of its fields is unknown: {error}")),
    }
}

/// What `T` writes for a value with all fields, also inside of them.
pub(super) fn write_sample<T: Serialize + DeserializeOwned>(
    properties: &Map<String, Value>,
) -> serde_json::Result<OrderedJson> {
    let value: T = serde_json::from_value(sample_object(properties))?;
    serde_json::from_str(&serde_json::to_string(&value)?)
}

fn sample_object(properties: &Map<String, Value>) -> Value {
    properties.iter().map(|(name, schema)| (name.clone(), sample_value(schema))).collect()
}

/// A value that fits the JSON Schema and is not the default of its type, so that no attribute leaves it out.
fn sample_value(schema: &Value) -> Value {
    if let Some(choice) = schema.get("const").or_else(|| schema.get("enum")?.get(0)) {
        return choice.clone();
    }
    let first = ["anyOf", "oneOf"].iter().find_map(|key| schema.get(key)?.get(0));
    if let Some(alternative) = first {
        return sample_value(alternative);
    }
    let kind = schema.get("type");
    match kind.and_then(|kind| kind.get(0)).or(kind).and_then(Value::as_str) {
        Some("string") => json!("x"),
        Some("integer" | "number") => json!(1),
        Some("boolean") => json!(true),
        // A reference is left only in a type that contains itself.
        Some("array") => match schema.get("items").filter(|items| items.get("$ref").is_none()) {
            Some(items) => json!([sample_value(items)]),
            None => json!([]),
        },
        Some("object") => match schema.get("properties").and_then(Value::as_object) {
            Some(properties) => sample_object(properties),
            None => {
                json!({"x": schema.get("additionalProperties").map_or(Value::Null, sample_value)})
            }
        },
        _ => Value::Null,
    }
}

/// Records the fields of the struct that a type asks for.
struct FieldRecorder<'a>(&'a mut Vec<&'static str>);

impl<'de> Deserializer<'de> for FieldRecorder<'_> {
    type Error = Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        self.0.extend(fields);
        Err(Error::custom("recorded"))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("not a struct"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct seq tuple tuple_struct map
        enum identifier ignored_any
    }
}
