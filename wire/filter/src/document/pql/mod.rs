//! Queries of `PuppetDB` in PQL, as far as they select nodes by name, facts and classes: converted to a query document.
//!
//! ```text
//! query    = ("inventory" | "nodes") [ "[" "certname" "]" ] "{" [ or ] "}"
//! or       = and { "or" and }        and = not { "and" not }        not = "!" not | "(" or ")" | test
//! test     = field ( "=" | "~" | ">" | ">=" | "<" | "<=" ) value | field "in" "[" values "]" | field "is" [ "not" ] "null"
//!          | "resources" "{" type = "Class" and title ( "=" | "~" ) text "}"
//!          | "facts" "{" name = text and value test "}"
//! field    = "certname" | "facts" path
//! ```
//!
//! Like a test in SQL, a test of a fact that is missing is neither true nor false, also within `!`. A document's `$nor` differs, so `!` is
//! moved to the tests, where it requires that the fact exists.

mod reader;

use super::read::{RelaxedEntry, RelaxedKind, RelaxedValue};
use crate::error::Result;

/// Whether a text is PQL rather than a document: it begins with a word.
pub(super) fn is_pql(text: &str) -> bool {
    text.trim_start().starts_with(|c: char| c.is_ascii_alphabetic())
}

/// Converts PQL to a query document.
pub(super) fn read_pql(text: &str) -> Result<RelaxedValue> {
    Ok(reader::read_query(text)?.into_document(false))
}

/// A condition on nodes.
enum Condition {
    All(usize, Vec<Condition>),
    Any(usize, Vec<Condition>),
    Not(Box<Condition>),
    Test(Test),
}

/// A condition on one field.
struct Test {
    at: usize,
    path: String,
    /// The operators of the document, such as `{$gt: 5}`.
    operators: RelaxedValue,
    /// Whether the condition may be unknown, as that of a fact that is missing.
    may_be_missing: bool,
}

impl Condition {
    /// The document that is true for the same nodes, or where this is false.
    fn into_document(self, negated: bool) -> RelaxedValue {
        match self {
            Self::Not(inner) => inner.into_document(!negated),
            Self::Test(test) => test.into_document(negated),
            Self::All(at, list) if list.is_empty() => document(at, Vec::new()),
            Self::All(at, list) => logic(at, if negated { "$or" } else { "$and" }, list, negated),
            Self::Any(at, list) => logic(at, if negated { "$and" } else { "$or" }, list, negated),
        }
    }
}

impl Test {
    fn into_document(self, negated: bool) -> RelaxedValue {
        let Self { at, path, operators, may_be_missing } = self;
        let test = document(at, vec![entry(at, &path, operators)]);
        if !negated {
            return test;
        }
        let mut entries = Vec::new();
        if may_be_missing {
            let null = RelaxedValue { at, kind: RelaxedKind::Null };
            entries.push(entry(at, &path, operator_map(at, "$ne", null)));
        }
        entries.push(entry(at, "$nor", RelaxedValue { at, kind: RelaxedKind::List(vec![test]) }));
        document(at, entries)
    }
}

fn logic(at: usize, operator: &str, list: Vec<Condition>, negated: bool) -> RelaxedValue {
    let list = list.into_iter().map(|condition| condition.into_document(negated)).collect();
    document(at, vec![entry(at, operator, RelaxedValue { at, kind: RelaxedKind::List(list) })])
}

fn operator_map(at: usize, operator: &str, value: RelaxedValue) -> RelaxedValue {
    document(at, vec![entry(at, operator, value)])
}

fn document(at: usize, entries: Vec<RelaxedEntry>) -> RelaxedValue {
    RelaxedValue { at, kind: RelaxedKind::Map(entries) }
}

fn entry(at: usize, key: &str, value: RelaxedValue) -> RelaxedEntry {
    RelaxedEntry { at, key: key.to_owned(), value }
}
