//! The values of a node's document, borrowed, and their comparison with the literals of a query.
//!
//! Values compare only within one type: numbers, texts, booleans, dates, lists, maps. Texts of facts and names of collectives
//! compare exactly; classes, agents and the identity ignore case, as `-C`, `-A` and `-I` do. The loose comparison also
//! compares numbers and booleans with texts of the same value.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use super::date::parse_millis;
use super::literal::QueryValue;
use crate::number::NumericValue;
use crate::text::{compare_ignoring_case, equals_ignoring_case};

/// How names compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameCase {
    Exact,
    Ignored,
}

/// A value of a node's document.
#[derive(Debug, Clone, Copy)]
pub(super) enum NodeValue<'a> {
    Json(&'a Value),
    /// A whole field of the node.
    Map(&'a Map<String, Value>),
    Name(&'a str, NameCase),
    Names(&'a [String], NameCase),
}

impl<'a> NodeValue<'a> {
    /// The text, of a text.
    pub(super) fn as_text(self) -> Option<&'a str> {
        match self {
            Self::Json(Value::String(text)) => Some(text),
            Self::Name(text, _) => Some(text),
            _ => None,
        }
    }

    /// The map, of a map.
    pub(super) fn as_map(self) -> Option<&'a Map<String, Value>> {
        match self {
            Self::Json(Value::Object(map)) | Self::Map(map) => Some(map),
            _ => None,
        }
    }

    /// The number of elements, of a list.
    pub(super) fn list_length(self) -> Option<usize> {
        match self {
            Self::Json(Value::Array(items)) => Some(items.len()),
            Self::Names(names, _) => Some(names.len()),
            _ => None,
        }
    }

    /// Whether the value is a list with an element for which `test` is true.
    pub(super) fn any_element(self, test: &mut dyn FnMut(NodeValue<'a>) -> bool) -> bool {
        match self {
            Self::Json(Value::Array(items)) => items.iter().any(|item| test(Self::Json(item))),
            Self::Names(names, case) => names.iter().any(|name| test(Self::Name(name, case))),
            _ => false,
        }
    }

    pub(super) fn is_null(self) -> bool {
        matches!(self, Self::Json(Value::Null))
    }

    /// The whole number, without the fraction of a decimal.
    pub(super) fn as_integer(self) -> Option<i128> {
        match self {
            Self::Json(Value::Number(number)) => NumericValue::from_json(number)?.truncate(),
            _ => None,
        }
    }

    /// Whether the value equals the literal. Lists compare by position, maps regardless of the order of keys.
    pub(super) fn equals(self, literal: &QueryValue, loose: bool) -> bool {
        match literal {
            QueryValue::Null => self.is_null(),
            QueryValue::List(items) => {
                let mut items_left = items.iter();
                let mut differs = |found: NodeValue<'a>| {
                    items_left.next().is_none_or(|item| !found.equals(item, loose))
                };
                self.list_length() == Some(items.len()) && !self.any_element(&mut differs)
            }
            QueryValue::Map(entries) => self.as_map().is_some_and(|map| {
                let has_entry = |(key, literal): &(String, QueryValue)| {
                    map.get(key).is_some_and(|value| Self::Json(value).equals(literal, loose))
                };
                map.len() == entries.len() && entries.iter().all(has_entry)
            }),
            QueryValue::Boolean(_)
            | QueryValue::Number(_)
            | QueryValue::Text(_)
            | QueryValue::Date(_) => self.compare(literal, loose) == Some(Ordering::Equal),
        }
    }

    /// The order of the value to a literal that is neither a list nor a map; `None` if their types differ.
    pub(super) fn compare(self, literal: &QueryValue, loose: bool) -> Option<Ordering> {
        if loose && let Some(order) = self.compare_loosely(literal) {
            return Some(order);
        }
        match (self, literal) {
            (Self::Json(Value::Null), QueryValue::Null) => Some(Ordering::Equal),
            (Self::Json(Value::Bool(found)), QueryValue::Boolean(value)) => Some(found.cmp(value)),
            (Self::Json(Value::Number(found)), QueryValue::Number(number)) => {
                NumericValue::from_json(found)?.compare(NumericValue::from_json(number)?)
            }
            (Self::Json(Value::String(found)), QueryValue::Text(text)) => Some(found.cmp(text)),
            (Self::Name(found, NameCase::Exact), QueryValue::Text(text)) => {
                Some(found.cmp(text.as_str()))
            }
            (Self::Name(found, NameCase::Ignored), QueryValue::Text(text)) => {
                Some(if equals_ignoring_case(found, text) {
                    Ordering::Equal
                } else {
                    compare_ignoring_case(found, text)
                })
            }
            (Self::Json(Value::String(found)), QueryValue::Date(date)) => {
                Some(parse_millis(found)?.cmp(&date.millis))
            }
            _ => None,
        }
    }

    /// The order if both sides have the form of a number, or both of a boolean.
    fn compare_loosely(self, literal: &QueryValue) -> Option<Ordering> {
        let found_number = match self {
            Self::Json(Value::Number(number)) => NumericValue::from_json(number),
            Self::Json(Value::String(text)) => NumericValue::parse(text),
            _ => None,
        };
        let number = match literal {
            QueryValue::Number(number) => NumericValue::from_json(number),
            QueryValue::Text(text) => NumericValue::parse(text),
            _ => None,
        };
        if let Some((found, number)) = found_number.zip(number) {
            return found.compare(number);
        }
        match (self, literal) {
            (Self::Json(Value::String(text)), QueryValue::Boolean(value)) => {
                Some(boolean_word(text)?.cmp(value))
            }
            (Self::Json(Value::Bool(found)), QueryValue::Text(text)) => {
                Some(found.cmp(&boolean_word(text)?))
            }
            _ => None,
        }
    }
}

/// `true` and `false` as texts, in any case.
pub(super) fn boolean_word(text: &str) -> Option<bool> {
    match text {
        _ if text.eq_ignore_ascii_case("true") => Some(true),
        _ if text.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    }
}
