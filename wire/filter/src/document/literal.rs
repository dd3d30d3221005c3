//! The literals of a query: how they are read, printed and found by an index. `value` compares them with the values of a node.

use std::fmt::{self, Display, Formatter, Write as _};

use serde_json::Number;

use super::date::QueryDate;
use super::read::{RelaxedEntry, RelaxedKind, RelaxedValue};
use super::usage::QueryUsage;
use super::value::boolean_word;
use crate::error::{Result, expected_at};
use crate::necessary::FactIndexKey;
use crate::number::NumericValue;
use crate::pattern::lower_case;

/// A literal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum QueryValue {
    Null,
    Boolean(bool),
    Number(Number),
    Text(String),
    Date(QueryDate),
    List(Vec<QueryValue>),
    Map(Vec<(String, QueryValue)>),
}

impl QueryValue {
    pub(super) fn read(value: RelaxedValue, usage: &mut QueryUsage) -> Result<Self> {
        usage.add(value.at, QueryUsage { conditions: 1, regexes: 0 })?;
        Ok(match value.kind {
            RelaxedKind::Null => Self::Null,
            RelaxedKind::Boolean(value) => Self::Boolean(value),
            RelaxedKind::Number(number) => Self::Number(number),
            RelaxedKind::Text(text) => Self::Text(text),
            RelaxedKind::Date(date) => Self::Date(date),
            RelaxedKind::Regex { .. } => {
                let expected = "a value (a regular expression is permitted after a path, $regex, $in, $nin, $all and $not)";
                return expected_at(value.at, expected);
            }
            RelaxedKind::List(items) => {
                let items = items.into_iter().map(|item| Self::read(item, usage));
                Self::List(items.collect::<Result<_>>()?)
            }
            RelaxedKind::Map(entries) => {
                let entries = entries.into_iter().map(|entry| Self::read_entry(entry, usage));
                Self::Map(entries.collect::<Result<_>>()?)
            }
        })
    }

    fn read_entry(entry: RelaxedEntry, usage: &mut QueryUsage) -> Result<(String, Self)> {
        if entry.key.starts_with('$') {
            let expected = format!(
                "a key of the compared map (write the operator {} after a dotted path, such as facts.os.family)",
                entry.key
            );
            return expected_at(entry.at, expected);
        }
        Ok((entry.key, Self::read(entry.value, usage)?))
    }

    /// The text, of a text.
    pub(super) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The keys of values that equal this one; none if a value without a key may be equal.
    pub(super) fn index_keys(&self, loose: bool) -> Option<Vec<FactIndexKey>> {
        Some(match self {
            Self::Boolean(value) => {
                let text = loose.then(|| FactIndexKey::Text(value.to_string()));
                [FactIndexKey::Boolean(*value)].into_iter().chain(text).collect()
            }
            // Texts of the same number have the key of the number.
            Self::Number(number) => {
                vec![FactIndexKey::of_number(NumericValue::from_json(number)?)]
            }
            Self::Text(text) if loose => {
                let boolean = boolean_word(text).map(FactIndexKey::Boolean);
                FactIndexKey::of_text(text).chain(boolean).collect()
            }
            Self::Text(text) => vec![FactIndexKey::Text(lower_case(text))],
            Self::Null | Self::Date(_) | Self::List(_) | Self::Map(_) => return None,
        })
    }
}

impl Display for QueryValue {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => out.write_str("null"),
            Self::Boolean(value) => value.fmt(out),
            Self::Number(number) => number.fmt(out),
            Self::Text(text) => JsonText(text).fmt(out),
            Self::Date(date) => write!(out, "ISODate({})", JsonText(&date.text)),
            Self::List(items) => write!(out, "[{}]", join_texts(items)),
            Self::Map(entries) => {
                let entries =
                    entries.iter().map(|(key, value)| format!("{}:{value}", JsonText(key)));
                write!(out, "{{{}}}", join_texts(entries))
            }
        }
    }
}

/// A text in double quotes, without control characters.
pub(super) struct JsonText<'a>(pub(super) &'a str);

impl Display for JsonText<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' | '\\' => write!(out, "\\{c}")?,
                // All control characters are below U+0100.
                c if c.is_control() => write!(out, "\\u{:04x}", u32::from(c))?,
                c => out.write_char(c)?,
            }
        }
        out.write_char('"')
    }
}

/// Prints items with commas between them.
pub(super) fn join_texts<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(",")
}
