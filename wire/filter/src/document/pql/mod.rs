//! Queries of `PuppetDB` in PQL, as far as they select nodes by name, facts and classes, with the answers of `PuppetDB` 7.12.
//!
//! ```text
//! query    = ("inventory" | "nodes") [ "[" "certname" "]" ] "{" [ or ] "}"
//! or       = and { "or" and }        and = not { "and" not }        not = "!" not | "(" or ")" | test
//! test     = field ( "=" | "!=" | "~" | "!~" | ">" | ">=" | "<" | "<=" ) value | field "in" "[" values "]" | field "is" [ "not" ] "null"
//!          | "facts" "{" or "}" | "resources" "{" or "}"
//! field    = "certname" | "facts" path, in "inventory"
//! ```
//!
//! The fields within `facts { }` are `name` and `value`, and those within `resources { }` are `type`, which must be `Class`, and `title`.
//! A query has a document's operator `$pql`, which carries its text, because its semantics are not those of documents: `PuppetDB` translates
//! it to SQL, in which a test can be null as well as true or false. `eval` has the table of each operator. What cannot have the same answer
//! is refused.

mod condition;
mod eval;
mod json;
mod operand;
mod reader;
mod regex;
mod syntax;

pub(super) use condition::PqlQuery;
pub(super) use regex::compile_regex;
pub(super) use syntax::read_syntax;

/// Whether a text is PQL rather than a document: it begins with a word.
pub(super) fn is_pql(text: &str) -> bool {
    text.trim_start().starts_with(|c: char| c.is_ascii_alphabetic())
}
