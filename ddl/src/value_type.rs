//! The types of inputs and outputs. `validate::typecheck` checks values.

use std::fmt;

use serde::ser::{Serialize, Serializer};

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
    /// All types with their names in documents.
    pub const ALL: [(Self, &'static str); 9] = [
        (Self::String, "string"),
        (Self::Integer, "integer"),
        (Self::Float, "float"),
        (Self::Number, "number"),
        (Self::Boolean, "boolean"),
        (Self::List, "list"),
        (Self::Array, "array"),
        (Self::Hash, "hash"),
        (Self::Any, "any"),
    ];

    /// The type called `name`, case-insensitive; `int` is Choria's synonym for `integer`.
    pub fn from_name(name: &str) -> Option<Self> {
        let name = if name.eq_ignore_ascii_case("int") { "integer" } else { name };
        Self::ALL.iter().find(|(_, known)| known.eq_ignore_ascii_case(name)).map(|(kind, _)| *kind)
    }

    /// The name in documents.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("any", |(_, name)| name)
    }
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
