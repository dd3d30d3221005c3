//! `$type`: has one of these types, by the names and numbers of `MongoDB`.

use serde_json::{Number, Value};

use super::prelude::*;

/// Each type with its number in `MongoDB`.
const TYPES: [(&str, Option<u64>); 9] = [
    ("array", Some(4)),
    ("bool", Some(8)),
    ("double", Some(1)),
    ("int", Some(16)),
    ("long", Some(18)),
    ("null", Some(10)),
    ("number", None),
    ("object", Some(3)),
    ("string", Some(2)),
];

/// Names of [`TYPES`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::document) struct Types(Vec<&'static str>);

impl FieldOperator for Types {
    const NAMES: &'static [&'static str] = &["$type"];
    const REFERENCE: &'static str = "\
| `$type: \"string\"` | has this type: `array`, `bool`, `double`, `int`, `long`, `null`, `number`, `object`, `string`, their numbers, or a list of these | false |
";

    fn read(_: &str, value: RelaxedValue, _: &mut QueryUsage) -> Result<Self> {
        match &value.kind {
            RelaxedKind::List(items) if !items.is_empty() => {
                items.iter().map(read_type).collect::<Result<_>>().map(Self)
            }
            _ => Ok(Self(vec![read_type(&value)?])),
        }
    }

    fn matches(&self, subject: TestSubject<'_>) -> bool {
        subject.any_part(&mut |value: Option<NodeValue<'_>>| {
            value.is_some_and(|value| self.0.iter().any(|name| has_type(value, name)))
        })
    }

    fn print(&self) -> String {
        format!("\"$type\":[{}]", join_texts(self.0.iter().map(|name| format!("\"{name}\""))))
    }

    fn explain(&self) -> String {
        format!("has the type {}", join_phrases(&self.0, "or"))
    }
}

fn read_type(value: &RelaxedValue) -> Result<&'static str> {
    let found = TYPES.into_iter().find(|(known, number)| match &value.kind {
        RelaxedKind::Text(name) => known == name,
        RelaxedKind::Number(code) => code.as_u64().is_some() && code.as_u64() == *number,
        RelaxedKind::Null => *known == "null",
        _ => false,
    });
    let expected = "a type of JSON: array, bool, double, int, long, null, number, object or string";
    found.map_or_else(|| expected_at(value.at, expected), |(name, _)| Ok(name))
}

fn has_type(value: NodeValue<'_>, name: &str) -> bool {
    let number = match value {
        NodeValue::Json(Value::Number(number)) => Some(number),
        _ => None,
    };
    let is_int = |number: &Number| number.as_i64().is_some_and(|n| i32::try_from(n).is_ok());
    match name {
        "array" => value.list_length().is_some(),
        "bool" => matches!(value, NodeValue::Json(Value::Bool(_))),
        "null" => value.is_null(),
        "object" => value.as_map().is_some(),
        "string" => value.as_text().is_some(),
        "double" => number.is_some_and(Number::is_f64),
        "int" => number.is_some_and(is_int),
        "long" => number.is_some_and(|number| !number.is_f64() && !is_int(number)),
        _ => number.is_some(),
    }
}
