//! The inputs and outputs of an action, from the JSON Schema of their type.
//!
//! A type says in `schemars` attributes what a DDL says about a field: `title`, `length(max)`, `regex(pattern)`, and by `extend` the keys of
//! [`INPUT_KEYWORDS`]. A key that has no meaning here is an error: with a mistyped `x-sensitive`, a secret would be shown.

use std::collections::BTreeSet;

use muster_ddl::{OrderedMap, ValueType};
use schemars::JsonSchema;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::field_order::order_fields;
use super::inner_schemas::InnerSchemas;

/// Keys of a JSON Schema that follow from a field's type, name or documentation.
const DERIVED_KEYWORDS: [&str; 18] = [
    "additionalProperties",
    "anyOf",
    "const",
    // Of `serde(default)`, which tells how to read a missing value, not what a DDL fills in.
    "default",
    "description",
    "enum",
    "format",
    "items",
    "maximum",
    "minimum",
    "oneOf",
    "patternProperties",
    "prefixItems",
    "properties",
    "required",
    "title",
    "type",
    "uniqueItems",
];
/// Keys that only inputs have in a DDL.
const INPUT_KEYWORDS: [&str; 4] = ["maxLength", "pattern", "x-required-unless", "x-validation"];
/// Keys that inputs and outputs have. `x-type` replaces the type that follows from the Rust type.
const FIELD_KEYWORDS: [&str; 3] = ["x-default", "x-sensitive", "x-type"];
/// Titles of names that are not their words.
const TITLES: [(&str, &str); 4] = [
    ("certname", "Certificate Name"),
    ("exitcode", "Exit Code"),
    ("noop", "No-op"),
    ("sha256", "SHA256"),
];

#[derive(Serialize)]
pub(super) struct InputDocument {
    prompt: String,
    pub(super) description: String,
    #[serde(rename = "type")]
    value_type: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    list: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<Box<RawValue>>,
    optional: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    required_unless: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    default: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    validation: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    maxlength: Option<u64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    sensitive: bool,
}

#[derive(Serialize)]
pub(super) struct OutputDocument {
    pub(super) description: String,
    display_as: String,
    #[serde(rename = "type")]
    value_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    default: Option<Value>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    sensitive: bool,
}

/// A field of a type, with the keys of its JSON Schema.
struct FieldSchema {
    name: String,
    keys: Map<String, Value>,
    is_required: bool,
    /// What is inside, for the types of a DDL that do not say it.
    inner: Option<Box<RawValue>>,
}

/// The inputs of an action, in the order of the fields of `I`.
pub(super) fn list_inputs<I: Serialize + DeserializeOwned + JsonSchema>()
-> Result<OrderedMap<InputDocument>, String> {
    let fields = list_fields::<I>("input", &[&INPUT_KEYWORDS[..], &FIELD_KEYWORDS[..]])?;
    let inputs = fields.into_iter().map(|field| {
        let input =
            field.to_input().map_err(|problem| format!("input {}: {problem}", field.name))?;
        Ok((field.name, input))
    });
    inputs.collect::<Result<_, String>>().map(OrderedMap)
}

/// The outputs of an action, in the order of the fields of `O`.
pub(super) fn list_outputs<O: Serialize + DeserializeOwned + JsonSchema>()
-> Result<OrderedMap<OutputDocument>, String> {
    let fields = list_fields::<O>("output", &[&FIELD_KEYWORDS[..]])?;
    let outputs = fields.into_iter().map(|field| {
        let output =
            field.to_output().map_err(|problem| format!("output {}: {problem}", field.name))?;
        Ok((field.name, output))
    });
    outputs.collect::<Result<_, String>>().map(OrderedMap)
}

/// The fields of `T`; `keywords` are the keys that they may have besides the derived ones.
fn list_fields<T: Serialize + DeserializeOwned + JsonSchema>(
    side: &str,
    keywords: &[&[&str]],
) -> Result<Vec<FieldSchema>, String> {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let schema = SchemaGenerator::new(settings).into_root_schema_for::<T>().to_value();
    let properties = schema.get("properties").and_then(Value::as_object);
    let properties = properties.cloned().unwrap_or_default();
    let required = schema.get("required").and_then(Value::as_array);
    let required: BTreeSet<&str> =
        required.into_iter().flatten().filter_map(Value::as_str).collect();
    let mut fields = Vec::new();
    for name in order_fields::<T>(&properties).map_err(|problem| format!("{side}: {problem}"))? {
        let keys = properties.get(&name).and_then(Value::as_object).cloned().unwrap_or_default();
        check_keywords(&keys, keywords).map_err(|problem| format!("{side} {name}: {problem}"))?;
        let is_required = required.contains(name.as_str());
        fields.push(FieldSchema { name, keys, is_required, inner: None });
    }
    let inner = InnerSchemas::new::<T>(&properties);
    for field in &mut fields {
        let place = |problem| format!("{side} {}: {problem}", field.name);
        let value_type = field.value_type().map_err(place)?;
        field.inner = inner.write_schema(&field.name, value_type).map_err(place)?;
    }
    Ok(fields)
}

fn check_keywords(keys: &Map<String, Value>, allowed: &[&[&str]]) -> Result<(), String> {
    let is_known = |key: &&String| {
        DERIVED_KEYWORDS.contains(&key.as_str()) || allowed.concat().contains(&key.as_str())
    };
    match keys.keys().find(|key| !is_known(key)) {
        Some(key) => Err(format!("the attribute for `{key}` has no meaning in a DDL here")),
        None => Ok(()),
    }
}

impl FieldSchema {
    fn to_input(&self) -> Result<InputDocument, String> {
        let list = list_choices(&self.keys);
        let value_type = match self.value_type()? {
            ValueType::String if !list.is_empty() => ValueType::List,
            other => other,
        };
        let default = self.keys.get("x-default").cloned();
        let required_unless = self.text("x-required-unless");
        let is_given = self.is_required || required_unless.is_some();
        Ok(InputDocument {
            prompt: self.title(),
            description: self.description()?,
            value_type: value_type.name(),
            list,
            schema: self.inner.clone(),
            optional: !is_given || default.is_some(),
            required_unless,
            default,
            validation: self.text("x-validation").or_else(|| self.text("pattern")),
            maxlength: self.keys.get("maxLength").and_then(Value::as_u64),
            sensitive: self.is_sensitive(),
        })
    }

    fn to_output(&self) -> Result<OutputDocument, String> {
        Ok(OutputDocument {
            description: self.description()?,
            display_as: self.title(),
            value_type: self.value_type()?.name(),
            schema: self.inner.clone(),
            default: self.keys.get("x-default").cloned(),
            sensitive: self.is_sensitive(),
        })
    }

    fn text(&self, key: &str) -> Option<String> {
        self.keys.get(key).and_then(Value::as_str).map(str::to_owned)
    }

    fn is_sensitive(&self) -> bool {
        self.keys.get("x-sensitive") == Some(&Value::Bool(true))
    }

    fn description(&self) -> Result<String, String> {
        describe_type(&self.keys).ok_or_else(|| "the field has no documentation".to_owned())
    }

    fn title(&self) -> String {
        self.text("title").unwrap_or_else(|| default_title(&self.name))
    }

    fn value_type(&self) -> Result<ValueType, String> {
        let Some(name) = self.text("x-type") else {
            return Ok(value_type(&self.keys));
        };
        ValueType::from_name(&name).ok_or_else(|| format!("`x-type` is `{name}`, which is no type"))
    }
}

/// The documentation in a JSON Schema as a description.
pub(super) fn describe_type(keys: &Map<String, Value>) -> Option<String> {
    keys.get("description").and_then(Value::as_str).map(first_paragraph)
}

/// The first paragraph in one line, without the full stop at its end and the marks before brackets that would be a link.
pub(super) fn first_paragraph(text: &str) -> String {
    let lines = text.lines().map(str::trim).take_while(|line| !line.is_empty());
    let line = lines.collect::<Vec<_>>().join(" ").replace(r"\[", "[").replace(r"\]", "]");
    line.strip_suffix('.').unwrap_or(&line).to_owned()
}

/// The words of a name with capitals: `key_id` becomes `Key Id`.
fn default_title(name: &str) -> String {
    if let Some((_, title)) = TITLES.iter().find(|(known, _)| *known == name) {
        return (*title).to_owned();
    }
    let words = name.split('_').map(|word| {
        let (first, rest) = word.split_at(usize::from(!word.is_empty()));
        first.to_ascii_uppercase() + rest
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The type in a DDL. Null has none: every output may be null, and an optional input may be absent.
fn value_type(keys: &Map<String, Value>) -> ValueType {
    let names = match keys.get("type") {
        Some(Value::String(name)) => vec![name.as_str()],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => return common_type(keys),
    };
    match names.into_iter().filter(|name| *name != "null").collect::<Vec<_>>()[..] {
        ["string"] => ValueType::String,
        ["integer"] => ValueType::Integer,
        ["number"] => ValueType::Float,
        ["boolean"] => ValueType::Boolean,
        ["array"] => ValueType::Array,
        ["object"] => ValueType::Hash,
        _ => ValueType::Any,
    }
}

/// The type of all alternatives, if they have the same one.
fn common_type(keys: &Map<String, Value>) -> ValueType {
    let mut types = alternatives(keys).map(value_type);
    match types.next() {
        Some(first) if types.all(|other| other == first) => first,
        _ => ValueType::Any,
    }
}

/// The alternatives of an enum or an optional value, without null.
fn alternatives(keys: &Map<String, Value>) -> impl Iterator<Item = &Map<String, Value>> {
    let lists = ["anyOf", "oneOf"].into_iter().filter_map(|key| keys.get(key)?.as_array());
    let schemas = lists.flatten().filter_map(Value::as_object);
    schemas.filter(|schema| schema.get("type") != Some(&Value::from("null")))
}

/// The texts that an enum accepts.
fn list_choices(keys: &Map<String, Value>) -> Vec<String> {
    let listed = keys.get("enum").and_then(Value::as_array).into_iter().flatten();
    let own = listed.chain(keys.get("const")).filter_map(Value::as_str).map(str::to_owned);
    own.chain(alternatives(keys).flat_map(list_choices)).collect()
}
