//! Converts `key=value` arguments of a command line to the typed values of the declared inputs.
//!
//! Only converts types. [`ActionSchema::validate_input`] checks completeness and validity, on the client and again on every
//! node.

use serde_json::{Map, Number, Value};

use crate::JsonObject;
use crate::error::{InputValidationError, truncate_text};
use crate::schema::ActionSchema;
use crate::validate::ValueViolation;
use crate::value_type::ValueType;

/// Longest JSON text in an argument, in bytes.
const MAX_JSON_BYTES: usize = 256 * 1024;

impl ActionSchema {
    /// Typed values of the `words`. Undeclared inputs keep their text if the action has `additional_input`, because the plugin
    /// converts them itself.
    pub fn coerce_words(
        &self,
        words: &[(String, String)],
    ) -> Result<JsonObject, InputValidationError> {
        let mut values = Map::new();
        for (name, word) in words {
            let value = match self.find_input(name) {
                Some(input) => coerce_value(input.value_type, word).map_err(|violation| {
                    self.invalid_input(name, &Value::from(word.as_str()), violation)
                })?,
                None if self.additional_input => Value::from(word.as_str()),
                None => return Err(self.undeclared_input(name)),
            };
            if values.insert(name.clone(), value).is_some() {
                return Err(InputValidationError::Repeated {
                    action: self.name.clone(),
                    input: truncate_text(name),
                });
            }
        }
        Ok(values)
    }
}

fn coerce_value(kind: ValueType, word: &str) -> Result<Value, ValueViolation> {
    let (value, requirement) = match kind {
        ValueType::String | ValueType::List => (Some(word.into()), "a string"),
        ValueType::Integer => (parse_integer(word).map(Value::Number), "an integer"),
        ValueType::Float => (parse_float(word).map(Value::Number), "a number"),
        ValueType::Number => {
            let number = parse_integer(word).or_else(|| parse_float(word));
            (number.map(Value::Number), "a number")
        }
        ValueType::Boolean => {
            (parse_boolean(word).map(Value::Bool), "one of true, false, yes or no")
        }
        ValueType::Array => (parse_array(word), "a JSON array or a comma separated list"),
        ValueType::Hash => {
            (parse_json(word).filter(Value::is_object), "a JSON object like {\"a\": 1}")
        }
        ValueType::Any => (parse_any(word), "plain text or complete JSON"),
    };
    value.ok_or(ValueViolation::Requirement(requirement))
}

fn parse_integer(word: &str) -> Option<Number> {
    let signed = word.parse::<i64>().map(Number::from);
    signed.or_else(|_| word.parse::<u64>().map(Number::from)).ok()
}

/// JSON has neither infinities nor NaN.
fn parse_float(word: &str) -> Option<Number> {
    word.parse::<f64>().ok().and_then(Number::from_f64)
}

fn parse_boolean(word: &str) -> Option<bool> {
    match word.to_ascii_lowercase().as_str() {
        "true" | "yes" | "t" | "y" | "1" => Some(true),
        "false" | "no" | "f" | "n" | "0" => Some(false),
        _ => None,
    }
}

fn parse_array(word: &str) -> Option<Value> {
    if word.trim_start().starts_with('[') {
        return parse_json(word).filter(Value::is_array);
    }
    let items = word.split(',').map(str::trim).filter(|item| !item.is_empty());
    Some(items.map(Value::from).collect())
}

/// Parses JSON if the text looks like an object or list, else keeps the text: `1.10` stays a version.
fn parse_any(word: &str) -> Option<Value> {
    if word.trim_start().starts_with(['{', '[', '"']) {
        parse_json(word)
    } else {
        Some(word.into())
    }
}

fn parse_json(word: &str) -> Option<Value> {
    if word.len() > MAX_JSON_BYTES {
        return None;
    }
    serde_json::from_str(word).ok()
}
