//! The key `schema` of inputs and outputs: a JSON Schema of what is inside an array, a hash or a value of any type.
//!
//! It informs readers and typed clients. Values are not checked against it; `check_value` checks their type.

use std::collections::BTreeSet;

use serde::{Serialize, Serializer};

use crate::ordered_json::{OrderedJson, OrderedMap};
use crate::value_type::ValueType;

/// Largest schema of one input or output, in bytes of compact JSON.
pub const MAX_SCHEMA_BYTES: usize = 32 * 1024;

/// Deepest nesting of objects and lists in a schema.
const MAX_SCHEMA_DEPTH: usize = 32;

/// Where the definitions of a schema are, in references to them.
const DEFINITION_PREFIX: &str = "#/$defs/";

/// The types of JSON Schema.
const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

/// Longest place in a message, in characters.
const MAX_PLACE_CHARS: usize = 60;

/// Why a schema is refused.
#[derive(Debug, thiserror::Error)]
pub enum ValueSchemaError {
    /// A keyword has a value that is no JSON Schema, or has features that are not supported.
    #[error("is invalid at {place}: {problem}")]
    Keyword {
        /// The place in the schema, as `/items/type`.
        place: String,
        /// What is wrong there.
        problem: String,
    },
    /// The schema exceeds the size limit. Holds its size in bytes.
    #[error("has {0} bytes; at most {MAX_SCHEMA_BYTES} are allowed")]
    Size(usize),
    /// The schema is nested too deep.
    #[error("is nested deeper than {MAX_SCHEMA_DEPTH} levels; use definitions in `$defs`")]
    Depth,
}

/// What the value of a keyword must be.
#[derive(Debug, Clone, Copy)]
enum KeywordForm {
    Anything,
    Choices,
    Count,
    Flag,
    Names,
    Number,
    Reference,
    Schema,
    SchemaList,
    SchemaMap,
    Text,
    Types,
}

/// The keywords of JSON Schema that are checked. Others are ignored with a warning.
const KEYWORDS: [(&str, KeywordForm); 53] = [
    ("$anchor", KeywordForm::Text),
    ("$comment", KeywordForm::Text),
    ("$defs", KeywordForm::SchemaMap),
    ("$ref", KeywordForm::Reference),
    ("$schema", KeywordForm::Text),
    ("additionalProperties", KeywordForm::Schema),
    ("allOf", KeywordForm::SchemaList),
    ("anyOf", KeywordForm::SchemaList),
    ("const", KeywordForm::Anything),
    ("contains", KeywordForm::Schema),
    ("contentEncoding", KeywordForm::Text),
    ("contentMediaType", KeywordForm::Text),
    ("contentSchema", KeywordForm::Schema),
    ("default", KeywordForm::Anything),
    ("dependentRequired", KeywordForm::Anything),
    ("dependentSchemas", KeywordForm::SchemaMap),
    ("deprecated", KeywordForm::Flag),
    ("description", KeywordForm::Text),
    ("else", KeywordForm::Schema),
    ("enum", KeywordForm::Choices),
    ("examples", KeywordForm::Choices),
    ("exclusiveMaximum", KeywordForm::Number),
    ("exclusiveMinimum", KeywordForm::Number),
    ("format", KeywordForm::Text),
    ("if", KeywordForm::Schema),
    ("items", KeywordForm::Schema),
    ("maxContains", KeywordForm::Count),
    ("maxItems", KeywordForm::Count),
    ("maxLength", KeywordForm::Count),
    ("maxProperties", KeywordForm::Count),
    ("maximum", KeywordForm::Number),
    ("minContains", KeywordForm::Count),
    ("minItems", KeywordForm::Count),
    ("minLength", KeywordForm::Count),
    ("minProperties", KeywordForm::Count),
    ("minimum", KeywordForm::Number),
    ("multipleOf", KeywordForm::Number),
    ("not", KeywordForm::Schema),
    ("oneOf", KeywordForm::SchemaList),
    ("pattern", KeywordForm::Text),
    ("patternProperties", KeywordForm::SchemaMap),
    ("prefixItems", KeywordForm::SchemaList),
    ("properties", KeywordForm::SchemaMap),
    ("propertyNames", KeywordForm::Schema),
    ("readOnly", KeywordForm::Flag),
    ("required", KeywordForm::Names),
    ("then", KeywordForm::Schema),
    ("title", KeywordForm::Text),
    ("type", KeywordForm::Types),
    ("unevaluatedItems", KeywordForm::Schema),
    ("unevaluatedProperties", KeywordForm::Schema),
    ("uniqueItems", KeywordForm::Flag),
    ("writeOnly", KeywordForm::Flag),
];

/// A valid schema of an input or output, as its author wrote it, in compact JSON: parsed, those of the built-in agents are a third of a megabyte in
/// every daemon, which does not use them.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueSchema(Box<str>);

impl ValueSchema {
    /// Checks the schema of values of this type. A type with nothing inside has none. An unknown keyword may be one of a later version.
    pub(crate) fn check(
        raw: Option<OrderedJson>,
        value_type: ValueType,
        at: &str,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Self>, ValueSchemaError> {
        let Some(json) = raw else {
            return Ok(None);
        };
        if !matches!(value_type, ValueType::Array | ValueType::Hash | ValueType::Any) {
            let reason = "only array, hash and any have one";
            warnings.push(format!("{at}: the schema of type {value_type} is ignored; {reason}"));
            return Ok(None);
        }
        let text = check_limits(&json)?;
        let Some(root) = json.as_object() else {
            return Err(invalid("", "it must be an object"));
        };
        let definitions = root.get("$defs").and_then(OrderedJson::as_object);
        let mut check = SchemaCheck { definitions, unknown: Vec::new() };
        check.check_keywords(root, "")?;
        check_root_type(root, value_type)?;
        let unknown = check.unknown.into_iter();
        warnings.extend(
            unknown.map(|place| {
                format!("{at}: the unknown keyword `{place}` of the schema is ignored")
            }),
        );
        Ok(Some(Self(text.into())))
    }

    /// The schema as JSON.
    ///
    /// # Panics
    ///
    /// Never: the text was written from such a value.
    #[expect(clippy::expect_used, reason = "the text was written from such a value")]
    pub fn json(&self) -> OrderedJson {
        serde_json::from_str(&self.0).expect("a schema is valid JSON")
    }
}

/// The definition that a schema within this root refers to; the schema itself if it has no reference, or not to a definition.
pub(crate) fn resolve<'a>(root: &'a OrderedJson, schema: &'a OrderedJson) -> &'a OrderedJson {
    let found = reference_name(schema).and_then(|name| root.get("$defs")?.get(name));
    found.unwrap_or(schema)
}

impl Serialize for ValueSchema {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.json().serialize(serializer)
    }
}

/// The name of the definition that a schema refers to.
pub(crate) fn reference_name(schema: &OrderedJson) -> Option<&str> {
    schema.get("$ref")?.as_str()?.strip_prefix(DEFINITION_PREFIX)
}

/// Returns the compact text of a schema within the limits.
fn check_limits(json: &OrderedJson) -> Result<String, ValueSchemaError> {
    if nesting(json) > MAX_SCHEMA_DEPTH {
        return Err(ValueSchemaError::Depth);
    }
    match serde_json::to_string(json) {
        Ok(text) if text.len() <= MAX_SCHEMA_BYTES => Ok(text),
        text => Err(ValueSchemaError::Size(text.map_or(usize::MAX, |text| text.len()))),
    }
}

/// The depth of a value. The parser of the document limits it.
fn nesting(json: &OrderedJson) -> usize {
    let inner = match json {
        OrderedJson::Scalar(_) => return 0,
        OrderedJson::List(items) => items.iter().map(nesting).max(),
        OrderedJson::Object(OrderedMap(entries)) => {
            entries.iter().map(|(_, value)| nesting(value)).max()
        }
    };
    1 + inner.unwrap_or(0)
}

/// Requires that the type in the schema, if there is one, is that of the input or output. Null means "absent" in a DDL.
fn check_root_type(
    root: &OrderedMap<OrderedJson>,
    value_type: ValueType,
) -> Result<(), ValueSchemaError> {
    let expected = match value_type {
        ValueType::Array => "array",
        ValueType::Hash => "object",
        _ => return Ok(()),
    };
    let names = root.get("type").map(type_names).unwrap_or_default();
    match names.iter().find(|name| **name != expected && **name != "null") {
        Some(name) => Err(invalid("/type", &format!("{name} is not the type {value_type}"))),
        None => Ok(()),
    }
}

/// The types that a value of `type` names.
pub(crate) fn type_names(json: &OrderedJson) -> Vec<&str> {
    match json {
        OrderedJson::List(items) => items.iter().filter_map(OrderedJson::as_str).collect(),
        other => other.as_str().into_iter().collect(),
    }
}

fn invalid(place: &str, problem: &str) -> ValueSchemaError {
    let place = if place.is_empty() { "its root".to_owned() } else { shorten(place) };
    ValueSchemaError::Keyword { place, problem: problem.to_owned() }
}

fn shorten(place: &str) -> String {
    place.chars().take(MAX_PLACE_CHARS).collect()
}

struct SchemaCheck<'a> {
    definitions: Option<&'a OrderedMap<OrderedJson>>,
    /// Places of unknown keywords.
    unknown: Vec<String>,
}

impl SchemaCheck<'_> {
    fn check_schema(&mut self, schema: &OrderedJson, at: &str) -> Result<(), ValueSchemaError> {
        match schema {
            OrderedJson::Object(keywords) => self.check_keywords(keywords, at),
            OrderedJson::Scalar(value) if value.is_boolean() => Ok(()),
            OrderedJson::Scalar(_) | OrderedJson::List(_) => {
                Err(invalid(at, "a schema must be an object or a boolean"))
            }
        }
    }

    fn check_keywords(
        &mut self,
        keywords: &OrderedMap<OrderedJson>,
        at: &str,
    ) -> Result<(), ValueSchemaError> {
        for (keyword, value) in &keywords.0 {
            let at = format!("{at}/{keyword}");
            match KEYWORDS.iter().find(|(known, _)| known == keyword) {
                Some((_, form)) => self.check_form(*form, value, &at)?,
                None => self.unknown.push(shorten(&at)),
            }
        }
        Ok(())
    }

    fn check_form(
        &mut self,
        form: KeywordForm,
        value: &OrderedJson,
        at: &str,
    ) -> Result<(), ValueSchemaError> {
        let requirement = match (form, value) {
            (KeywordForm::Schema, schema) => return self.check_schema(schema, at),
            (KeywordForm::SchemaList, OrderedJson::List(schemas)) if !schemas.is_empty() => {
                let mut schemas = schemas.iter().enumerate();
                return schemas
                    .try_for_each(|(n, schema)| self.check_schema(schema, &format!("{at}/{n}")));
            }
            (KeywordForm::SchemaMap, OrderedJson::Object(OrderedMap(schemas))) => {
                let mut schemas = schemas.iter();
                return schemas.try_for_each(|(name, schema)| {
                    self.check_schema(schema, &format!("{at}/{name}"))
                });
            }
            (KeywordForm::SchemaList, _) => "must be a list of at least one schema",
            (KeywordForm::SchemaMap, _) => "must be an object of schemas",
            (KeywordForm::Reference, _) if self.is_known_reference(value) => return Ok(()),
            (KeywordForm::Reference, _) => "must be #/$defs/ and the name of a definition",
            (form, value) => match form.requirement(value) {
                Some(requirement) => requirement,
                None => return Ok(()),
            },
        };
        Err(invalid(at, requirement))
    }

    fn is_known_reference(&self, value: &OrderedJson) -> bool {
        let name = value.as_str().and_then(|text| text.strip_prefix(DEFINITION_PREFIX));
        name.zip(self.definitions).is_some_and(|(name, known)| known.get(name).is_some())
    }
}

impl KeywordForm {
    /// What a value without schemas inside must be, if it is not.
    fn requirement(self, value: &OrderedJson) -> Option<&'static str> {
        let number = match value {
            OrderedJson::Scalar(value) => value.as_number(),
            OrderedJson::List(_) | OrderedJson::Object(_) => None,
        };
        let (is_valid, requirement) = match self {
            Self::Choices => (value.as_list().is_some(), "must be a list"),
            Self::Count => {
                (number.is_some_and(serde_json::Number::is_u64), "must be a number of 0 or more")
            }
            Self::Flag => {
                let is_boolean = matches!(value, OrderedJson::Scalar(value) if value.is_boolean());
                (is_boolean, "must be a boolean")
            }
            Self::Names => {
                let is_names = value.as_list().is_some_and(are_distinct_texts);
                (is_names, "must be a list of different names")
            }
            Self::Number => (number.is_some(), "must be a number"),
            Self::Text => (value.as_str().is_some(), "must be a text"),
            Self::Types => {
                let known =
                    |name: &OrderedJson| name.as_str().is_some_and(|name| TYPES.contains(&name));
                let is_types = match value {
                    OrderedJson::List(names) => {
                        !names.is_empty() && are_distinct_texts(names) && names.iter().all(known)
                    }
                    name => known(name),
                };
                let expected = "must be array, boolean, integer, null, number, object or string, or a list of them";
                (is_types, expected)
            }
            Self::Anything
            | Self::Reference
            | Self::Schema
            | Self::SchemaList
            | Self::SchemaMap => (true, ""),
        };
        (!is_valid).then_some(requirement)
    }
}

fn are_distinct_texts(items: &[OrderedJson]) -> bool {
    let texts: BTreeSet<&str> = items.iter().filter_map(OrderedJson::as_str).collect();
    texts.len() == items.len()
}
