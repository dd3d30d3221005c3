//! The key `schema` of a field: a JSON Schema of what is inside an array, a hash or a value of any type.
//!
//! It has what a caller of the action needs, and is short: no titles, and no formats of Rust's numbers. Keys and fields have a fixed order.

use std::collections::BTreeMap;

use muster_ddl::{OrderedJson, OrderedMap, ValueType};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::field_order::write_sample;
use super::fields::first_paragraph;

/// Where the definitions are, in references to them.
const DEFINITION_PREFIX: &str = "#/$defs/";
/// Keywords in the order in which they are written.
const KEYWORDS: [&str; 22] = [
    "$ref",
    "description",
    "type",
    "const",
    "enum",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "uniqueItems",
    "items",
    "prefixItems",
    "properties",
    "patternProperties",
    "additionalProperties",
    "required",
    "anyOf",
    "oneOf",
    "allOf",
];
/// Keywords that are left out. A missing field has its default, and `x-type` belongs to the outputs of another action.
const OMITTED_KEYWORDS: [&str; 4] = ["default", "format", "title", "x-type"];
/// Keywords of a field that are keys of the DDL.
const FIELD_KEYWORDS: [&str; 3] = ["description", "maxLength", "pattern"];

/// The JSON Schemas of the fields of a type, with references to definitions.
pub(super) struct InnerSchemas {
    properties: Map<String, Value>,
    definitions: Map<String, Value>,
    /// A value of the type, whose keys have the order of the fields.
    sample: Option<OrderedJson>,
}

impl InnerSchemas {
    /// Of the type `T`; `inlined` are its fields without references.
    pub(super) fn new<T: Serialize + DeserializeOwned + JsonSchema>(
        inlined: &Map<String, Value>,
    ) -> Self {
        let generator = SchemaSettings::draft2020_12().into_generator();
        let schema = generator.into_root_schema_for::<T>().to_value();
        let object = |key: &str| schema.get(key).and_then(Value::as_object).cloned();
        Self {
            properties: object("properties").unwrap_or_default(),
            definitions: object("$defs").unwrap_or_default(),
            sample: write_sample::<T>(inlined).ok(),
        }
    }

    /// The schema of a field in one line; none if it says no more than the type.
    pub(super) fn write_schema(
        &self,
        field: &str,
        value_type: ValueType,
    ) -> Result<Option<Box<RawValue>>, String> {
        if !matches!(value_type, ValueType::Array | ValueType::Hash | ValueType::Any) {
            return Ok(None);
        }
        let keys = self.properties.get(field).and_then(Value::as_object);
        let keys = without_null(keys.cloned().unwrap_or_default());
        let own = |key: &str| FIELD_KEYWORDS.contains(&key) || key.starts_with("x-");
        let keys = keys.into_iter().filter(|(key, _)| !own(key)).collect();
        let sample = self.sample.as_ref().and_then(|sample| sample.get(field));
        let mut writer = SchemaWriter::default();
        let mut entries = writer.write_keywords(&keys, sample)?;
        let definitions = writer.write_definitions(&self.definitions)?;
        if !definitions.is_empty() {
            entries.push(("$defs".to_owned(), OrderedJson::Object(OrderedMap(definitions))));
        }
        if entries.iter().all(|(keyword, value)| is_implied(keyword, value, value_type)) {
            return Ok(None);
        }
        let text =
            serde_json::to_string(&OrderedMap(entries)).map_err(|error| error.to_string())?;
        RawValue::from_string(text).map(Some).map_err(|error| error.to_string())
    }
}

/// Whether the type of the field says what the keyword says.
fn is_implied(keyword: &str, value: &OrderedJson, value_type: ValueType) -> bool {
    match keyword {
        "type" => value_type != ValueType::Any,
        "items" | "additionalProperties" => *value == OrderedJson::Scalar(Value::Bool(true)),
        _ => false,
    }
}

/// A schema without the alternative null, which every output and every optional input has.
fn without_null(mut keys: Map<String, Value>) -> Map<String, Value> {
    if let Some(Value::Array(names)) = keys.get_mut("type") {
        names.retain(|name| name != "null");
        if let [only] = &names[..] {
            let only = only.clone();
            keys.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(alternatives)) = keys.get_mut("anyOf") {
        alternatives.retain(|alternative| alternative.get("type") != Some(&"null".into()));
        if let [Value::Object(only)] = &alternatives[..] {
            let only = only.clone();
            keys.remove("anyOf");
            keys.extend(only);
        }
    }
    keys
}

/// Writes schemas, and collects the definitions that they refer to, each with a value.
#[derive(Default)]
struct SchemaWriter<'a> {
    referred: BTreeMap<String, Option<&'a OrderedJson>>,
}

impl<'a> SchemaWriter<'a> {
    /// The definitions that were referred to, also by other definitions.
    fn write_definitions(
        &mut self,
        known: &Map<String, Value>,
    ) -> Result<Vec<(String, OrderedJson)>, String> {
        let mut written = BTreeMap::new();
        loop {
            let mut referred = self.referred.iter();
            let Some((name, sample)) = referred.find(|(name, _)| !written.contains_key(*name))
            else {
                return Ok(written.into_iter().collect());
            };
            let (name, sample) = (name.clone(), *sample);
            let definition = known.get(&name);
            let definition = definition.ok_or_else(|| format!("there is no definition {name}"))?;
            let definition = self.write(definition, sample)?;
            written.insert(name, definition);
        }
    }

    fn write(
        &mut self,
        schema: &Value,
        sample: Option<&'a OrderedJson>,
    ) -> Result<OrderedJson, String> {
        match schema {
            Value::Object(keys) if keys.is_empty() => Ok(OrderedJson::Scalar(true.into())),
            Value::Object(keys) => {
                Ok(OrderedJson::Object(OrderedMap(self.write_keywords(keys, sample)?)))
            }
            other => read_ordered(other),
        }
    }

    /// The keywords of a schema. `sample` is a value that the schema describes, if there is one.
    fn write_keywords(
        &mut self,
        keys: &Map<String, Value>,
        sample: Option<&'a OrderedJson>,
    ) -> Result<Vec<(String, OrderedJson)>, String> {
        let is_known = |key: &&String| {
            KEYWORDS.contains(&key.as_str()) || OMITTED_KEYWORDS.contains(&key.as_str())
        };
        if let Some(stray) = keys.keys().find(|key| !is_known(key)) {
            return Err(format!("`{stray}` inside a value has no meaning in a DDL"));
        }
        let mut entries = Vec::new();
        for keyword in KEYWORDS {
            if let Some(value) = keys.get(keyword) {
                entries.push((keyword.to_owned(), self.write_keyword(keyword, value, sample)?));
            }
        }
        Ok(entries)
    }

    fn write_keyword(
        &mut self,
        keyword: &str,
        value: &Value,
        sample: Option<&'a OrderedJson>,
    ) -> Result<OrderedJson, String> {
        match (keyword, value) {
            ("$ref", Value::String(target)) => {
                let name = target.strip_prefix(DEFINITION_PREFIX).unwrap_or(target).to_owned();
                let known = self.referred.entry(name).or_default();
                *known = known.or(sample);
                read_ordered(value)
            }
            ("description", Value::String(text)) => {
                Ok(OrderedJson::Scalar(first_paragraph(text).into()))
            }
            ("items", _) => self.write(value, sample.and_then(|sample| sample.as_list()?.first())),
            ("additionalProperties", _) => {
                let first = sample.and_then(|sample| sample.as_object()?.0.first());
                self.write(value, first.map(|(_, value)| value))
            }
            ("properties" | "patternProperties", Value::Object(schemas)) => {
                self.write_properties(schemas, sample)
            }
            ("anyOf" | "oneOf" | "allOf", Value::Array(schemas)) => {
                let written = schemas.iter().map(|schema| self.write(schema, sample));
                written.collect::<Result<_, _>>().map(OrderedJson::List)
            }
            ("prefixItems", Value::Array(schemas)) => {
                let written = schemas.iter().map(|schema| self.write(schema, None));
                written.collect::<Result<_, _>>().map(OrderedJson::List)
            }
            _ => read_ordered(value),
        }
    }

    /// The fields of a hash in the order of the value, which is that of their declaration.
    fn write_properties(
        &mut self,
        schemas: &Map<String, Value>,
        sample: Option<&'a OrderedJson>,
    ) -> Result<OrderedJson, String> {
        let fields = sample.and_then(OrderedJson::as_object);
        let place = |name: &str| {
            let mut names = fields.into_iter().flat_map(|fields| &fields.0);
            names.position(|(known, _)| known == name).unwrap_or(usize::MAX)
        };
        let mut names: Vec<&String> = schemas.keys().collect();
        names.sort_by_key(|name| place(name));
        let written = names.into_iter().filter_map(|name| {
            let value = fields.and_then(|fields| fields.get(name));
            let schema = self.write(schemas.get(name)?, value);
            Some(schema.map(|schema| (name.clone(), schema)))
        });
        let entries: Result<Vec<_>, String> = written.collect();
        entries.map(|entries| OrderedJson::Object(OrderedMap(entries)))
    }
}

fn read_ordered(value: &Value) -> Result<OrderedJson, String> {
    serde_json::from_value(value.clone()).map_err(|error| error.to_string())
}
