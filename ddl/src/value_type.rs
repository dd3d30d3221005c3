//! The types of inputs and outputs, and the check of a value against one.

use std::fmt;

use serde::ser::{Serialize, Serializer};
use serde_json::{Number, Value};

use crate::violation::ValueViolation;

/// The types that inputs and outputs may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ValueType {
    /// Text.
    String,
    /// A number without a fraction.
    Integer,
    /// A number with a fraction.
    Float,
    /// Any number.
    Number,
    /// True or false.
    Boolean,
    /// One of the declared choices.
    List,
    /// An ordered list of values.
    Array,
    /// A map of names to values.
    Hash,
    /// Anything.
    #[default]
    Any,
}

impl ValueType {
    /// All types, with their names in documents and what a value must be.
    pub(crate) const ALL: [(Self, &'static str, &'static str); 9] = [
        (Self::String, "string", "a string"),
        (Self::Integer, "integer", "an integer"),
        (Self::Float, "float", "a number"),
        (Self::Number, "number", "a number"),
        (Self::Boolean, "boolean", "a boolean"),
        (Self::List, "list", "a string from a list"),
        (Self::Array, "array", "an array"),
        (Self::Hash, "hash", "a hash"),
        (Self::Any, "any", "anything"),
    ];

    /// The type called `name`, case-insensitive; `int` is Choria's synonym for `integer`.
    pub fn from_name(name: &str) -> Option<Self> {
        let name = if name.eq_ignore_ascii_case("int") { "integer" } else { name };
        let is_called = |(_, known, _): &&(_, &str, _)| known.eq_ignore_ascii_case(name);
        Self::ALL.iter().find(is_called).map(|(kind, ..)| *kind)
    }

    /// The name in documents.
    pub fn name(self) -> &'static str {
        self.name_and_requirement().0
    }

    fn name_and_requirement(self) -> (&'static str, &'static str) {
        let entry = Self::ALL.iter().find(|(kind, ..)| *kind == self);
        entry.map_or(("any", "anything"), |(_, name, requirement)| (name, requirement))
    }

    pub(crate) fn check_type(self, value: &Value) -> Result<(), ValueViolation> {
        let is_valid = match self {
            Self::String | Self::List => value.is_string(),
            Self::Integer => value.as_number().is_some_and(is_integral),
            Self::Float | Self::Number => value.is_number(),
            Self::Boolean => value.is_boolean(),
            Self::Array => value.is_array(),
            Self::Hash => value.is_object(),
            Self::Any => true,
        };
        let (_, requirement) = self.name_and_requirement();
        if is_valid { Ok(()) } else { Err(ValueViolation::Requirement(requirement)) }
    }
}

/// A float without a fraction is integral, as in JSON Schema.
fn is_integral(number: &Number) -> bool {
    number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|n| n.fract() == 0.0)
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for ValueType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
