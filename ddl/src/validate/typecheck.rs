//! Checks that a JSON value is of a declared type.

use serde_json::{Number, Value};

use super::ValueViolation;
use crate::value_type::ValueType;

pub(super) fn check_type(kind: ValueType, value: &Value) -> Result<(), ValueViolation> {
    let is_valid = match kind {
        ValueType::String | ValueType::List => value.is_string(),
        ValueType::Integer => value.as_number().is_some_and(is_integral),
        ValueType::Float | ValueType::Number => value.is_number(),
        ValueType::Boolean => value.is_boolean(),
        ValueType::Array => value.is_array(),
        ValueType::Hash => value.is_object(),
        ValueType::Any => true,
    };
    if is_valid { Ok(()) } else { Err(ValueViolation::Type(type_description(kind))) }
}

/// JSON does not distinguish 3 from 3.0, and plugins in other languages write either.
fn is_integral(number: &Number) -> bool {
    number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|n| n.fract() == 0.0)
}

const fn type_description(kind: ValueType) -> &'static str {
    match kind {
        ValueType::String => "a string",
        ValueType::Integer => "an integer",
        ValueType::Float | ValueType::Number => "a number",
        ValueType::Boolean => "a boolean",
        ValueType::List => "a string from a list",
        ValueType::Array => "an array",
        ValueType::Hash => "a hash",
        ValueType::Any => "anything",
    }
}
