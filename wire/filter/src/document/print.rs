//! Prints the canonical text of a query: keys and texts in double quotes, no white space, equality without `$eq`, regular
//! expressions between slashes. It parses to an equal query.

use std::fmt::{self, Display, Formatter, Write as _};

use super::ast::{ClauseList, DocumentClause, ElementTest, FieldTest, QueryValue};
use super::compile::LOOSE_OPERATOR;
use super::pql::PQL_OPERATOR;
use crate::pattern::FilterRegex;

impl Display for ClauseList {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_char('{')?;
        write_list(out, &self.0, Display::fmt)?;
        out.write_char('}')
    }
}

impl Display for DocumentClause {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(path, tests) => {
                write!(out, "{}:", JsonText(&path.to_string()))?;
                match tests.as_slice() {
                    [test @ (FieldTest::Equal(_) | FieldTest::Match(_))] => write_item(test, out),
                    tests => write_tests(out, tests),
                }
            }
            Self::Logic(operator, list) => {
                write!(out, "\"{}\":[", operator.as_str())?;
                write_list(out, list, Display::fmt)?;
                out.write_char(']')
            }
            Self::Loose(inner) => write!(out, "\"{LOOSE_OPERATOR}\":{inner}"),
            Self::Pql(query) => write!(out, "\"{PQL_OPERATOR}\":{}", JsonText(query.text())),
        }
    }
}

/// A document of operators.
fn write_tests(out: &mut Formatter<'_>, tests: &[FieldTest]) -> fmt::Result {
    out.write_char('{')?;
    write_list(out, tests, Display::fmt)?;
    out.write_char('}')
}

/// A literal, a regular expression, or a document with one operator.
fn write_item(test: &FieldTest, out: &mut Formatter<'_>) -> fmt::Result {
    match test {
        FieldTest::Equal(value) => value.fmt(out),
        FieldTest::Match(regex) => RegexText(regex).fmt(out),
        other => write_tests(out, std::slice::from_ref(other)),
    }
}

fn write_list<T>(
    out: &mut Formatter<'_>,
    items: &[T],
    write_one: impl Fn(&T, &mut Formatter<'_>) -> fmt::Result,
) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.write_char(',')?;
        }
        write_one(item, out)?;
    }
    Ok(())
}

impl Display for FieldTest {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let write_items = |out: &mut Formatter<'_>, operator: &str, items: &[Self]| {
            write!(out, "\"{operator}\":[")?;
            write_list(out, items, write_item)?;
            out.write_char(']')
        };
        match self {
            Self::Equal(value) => write!(out, "\"$eq\":{value}"),
            Self::NotEqual(value) => write!(out, "\"$ne\":{value}"),
            Self::Order(operator, value) => write!(out, "\"{}\":{value}", operator.as_str()),
            Self::In(items) => write_items(out, "$in", items),
            Self::NotIn(items) => write_items(out, "$nin", items),
            Self::All(items) => write_items(out, "$all", items),
            Self::Exists(wanted) => write!(out, "\"$exists\":{wanted}"),
            Self::Size(count) => write!(out, "\"$size\":{count}"),
            Self::Type(types) => {
                out.write_str("\"$type\":[")?;
                write_list(out, types, |found, out| write!(out, "\"{}\"", found.as_str()))?;
                out.write_char(']')
            }
            Self::Modulo(divisor, remainder) => {
                write!(out, "\"$mod\":[{divisor},{remainder}]")
            }
            Self::Match(regex) => write!(out, "\"$regex\":{}", RegexText(regex)),
            Self::Not(tests) => {
                out.write_str("\"$not\":")?;
                match tests.as_slice() {
                    [test @ Self::Match(_)] => write_item(test, out),
                    tests => write_tests(out, tests),
                }
            }
            Self::Element(ElementTest::Values(tests)) => {
                out.write_str("\"$elemMatch\":")?;
                write_tests(out, tests)
            }
            Self::Element(ElementTest::Document(document)) => {
                write!(out, "\"$elemMatch\":{document}")
            }
        }
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
            Self::List(items) => {
                out.write_char('[')?;
                write_list(out, items, Display::fmt)?;
                out.write_char(']')
            }
            Self::Map(entries) => {
                out.write_char('{')?;
                write_list(out, entries, |(key, value), out| {
                    write!(out, "{}:{value}", JsonText(key))
                })?;
                out.write_char('}')
            }
        }
    }
}

/// A text in double quotes, without control characters.
struct JsonText<'a>(&'a str);

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

/// A regular expression between slashes, with escapes for the slashes in it.
pub(super) struct RegexText<'a>(pub(super) &'a FilterRegex);

impl Display for RegexText<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let flag = if self.0.ignores_case() { "i" } else { "" };
        write!(out, "/{}/{flag}", self.0.source().replace('/', "\\/"))
    }
}
