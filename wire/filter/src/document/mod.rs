//! Query documents of `MongoDB` over a node's document: `{ 'facts.customer': 'acme', classes: 'mysql::master' }`.
//!
//! The document is `{identity, facts: {...}, classes: [...], agents: [...], collectives: [...]}`. A [`DocumentQuery`] is parsed,
//! checked and compiled within limits, so evaluation cannot fail; it contains no code. `Display` prints its canonical text:
//! requests carry it, and it parses back as the same query. The meaning is that of `MongoDB`'s documentation;
//! `docs/decisions/0055` lists the differences.
//!
//! The stages: `scan` and `read` parse relaxed JSON; `clause`, `operators`, `literal` and `path` read it as a tree, and evaluate, print and explain that;
//! `pql` does so for PQL; `walk`, `value` and `date` are the data.

mod clause;
mod date;
mod eval;
mod literal;
mod necessary;
mod operators;
mod path;
mod pql;
mod read;
#[cfg(test)]
mod refusals;
mod scan;
mod subject;
mod usage;
mod value;
mod walk;

use std::fmt;

pub use date::parse_millis as parse_date_millis;

use clause::{ClauseList, DocumentClause, PathScope};
use usage::QueryUsage;

use super::error::{FaultContext as _, FilterError, FilterFault, Result, expected_at};
use super::limits::MAX_QUERY_BYTES;
use super::pattern::FilterRegex;
use super::state::MapField;
use super::text::join_phrases;

/// Reads a query in PQL of any entity as the JSON that `PuppetDB` makes of it. Names of entities and fields are not checked.
///
/// ```
/// # use muster_filter::read_pql_syntax;
/// let query = read_pql_syntax("nodes[certname] { certname ~ '^web' limit 5 }")?;
/// assert_eq!(query.to_string(), r#"["from","nodes",["extract",["certname"],["~","certname","^web"]],["limit",5]]"#);
/// # Ok::<(), muster_filter::FilterError>(())
/// ```
pub fn read_pql_syntax(text: &str) -> Result<serde_json::Value, FilterError> {
    if text.len() > MAX_QUERY_BYTES {
        return Err(too_long(MAX_QUERY_BYTES)).within_text(text);
    }
    pql::read_syntax(text).within_text(text)
}

/// Compiles a regular expression of `PostgreSQL`, if it matches the same texts here.
pub fn compile_postgres_regex(pattern: &str) -> Result<FilterRegex, FilterError> {
    pql::compile_regex(pattern).within_text(pattern)
}

/// A checked query. `Display` prints its canonical text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentQuery(ClauseList);

impl DocumentQuery {
    /// Parses a query in relaxed JSON.
    ///
    /// ```
    /// # use muster_filter::DocumentQuery;
    /// let query = DocumentQuery::parse("{'facts.customer': 'acme', classes: mysql::master}")?;
    /// assert_eq!(query.to_string(), r#"{"facts.customer":"acme","classes":"mysql::master"}"#);
    /// # Ok::<(), muster_filter::FilterError>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        Self::parse_checked(text).within_text(text)
    }

    /// Parses what a user writes: a query in relaxed JSON, or a query of `PuppetDB` in PQL that selects nodes by name, facts and classes.
    ///
    /// ```
    /// # use muster_filter::DocumentQuery;
    /// let query = DocumentQuery::parse_written("inventory[certname] { facts.os.family = 'Debian' }")?;
    /// assert_eq!(query.to_string(), r#"{"$pql":"inventory[certname] { facts.os.family = 'Debian' }"}"#);
    /// # Ok::<(), muster_filter::FilterError>(())
    /// ```
    pub fn parse_written(text: &str) -> Result<Self, FilterError> {
        if !pql::is_pql(text) {
            return Self::parse(text);
        }
        Self::parse_pql(text).and_then(Self::check_printed).within_text(text)
    }

    fn parse_pql(text: &str) -> Result<Self> {
        if text.len() > MAX_QUERY_BYTES {
            return Err(too_long(MAX_QUERY_BYTES));
        }
        let query = pql::PqlQuery::parse(text)?;
        if query.is_unconditional() {
            return Ok(Self(ClauseList::default()));
        }
        QueryUsage::default().add(0, query.usage)?;
        Ok(Self(ClauseList(vec![DocumentClause::Pql(Box::new(query))])))
    }

    /// Parses what a user writes as a query whose equality and order compare numbers with texts of the same number, as with the operator `$loose`.
    pub fn parse_loose(text: &str) -> Result<Self, FilterError> {
        if pql::is_pql(text) {
            let expected = "a query document: PQL compares as PuppetDB does, without --loose";
            return expected_at(0, expected).within_text(text);
        }
        let query = Self::parse_written(text)?;
        if query.is_unconditional() {
            return Ok(query);
        }
        Self(ClauseList(vec![DocumentClause::Loose(query.0)])).check_printed().within_text(text)
    }

    fn parse_checked(text: &str) -> Result<Self> {
        if text.len() > MAX_QUERY_BYTES {
            return Err(too_long(MAX_QUERY_BYTES));
        }
        let value = read::read_relaxed_json(text)?;
        let query = Self(ClauseList::read(value, PathScope::Node, &mut QueryUsage::default())?);
        if query.printed_bytes() > MAX_QUERY_BYTES {
            return Err(too_long(text.len()));
        }
        Ok(query)
    }

    /// Checks that a receiver can parse the query.
    fn check_printed(self) -> Result<Self> {
        Self::parse_checked(&self.to_string())?;
        Ok(self)
    }

    /// Joins both queries with `$and`. A query without conditions changes nothing.
    pub(super) fn join_and(self, other: Self) -> Result<Self> {
        if other.is_unconditional() {
            return Ok(self);
        }
        if self.is_unconditional() {
            return Ok(other);
        }
        let mut list = self.into_and_list();
        list.extend(other.into_and_list());
        let joined = DocumentClause::And(list);
        Self(ClauseList(vec![joined])).check_printed()
    }

    fn into_and_list(self) -> Vec<ClauseList> {
        match <[DocumentClause; 1]>::try_from(self.0.0) {
            Ok([DocumentClause::And(list)]) => list,
            Ok([clause]) => vec![ClauseList(vec![clause])],
            Err(clauses) => vec![ClauseList(clauses)],
        }
    }

    /// The table of all operators in Markdown, for the reference.
    pub fn operator_table() -> String {
        let head = "| operator | true if the field | for a missing field |\n|---|---|---|\n";
        let fields = operators::FIELD_REFERENCE.concat();
        format!("{head}{fields}{}", clause::CLAUSE_REFERENCE)
    }

    /// The fields of a node's document and the form of their values, for the reference.
    pub fn document_outline() -> String {
        let fields = path::document_fields().map(|name| match MapField::from_name(name) {
            Some(_) => format!("{name}: {{ ... }}"),
            None if name == "identity" => format!("{name}: \"db1.acme.net\""),
            None => format!("{name}: [ ... ]"),
        });
        format!("{{ {} }}\n", fields.collect::<Vec<_>>().join(", "))
    }

    /// Whether the query has no conditions, so that every node matches, such as `{}`.
    pub fn is_unconditional(&self) -> bool {
        self.0.is_unconditional()
    }

    /// The query as an English phrase that follows "nodes".
    pub fn explain(&self) -> String {
        match self.explain_clauses() {
            clauses if clauses.is_empty() => "with any data".to_owned(),
            clauses => join_phrases(clauses, "and"),
        }
    }

    /// The phrases whose conjunction is the query.
    pub(crate) fn explain_clauses(&self) -> Vec<String> {
        self.conditions().into_iter().map(DocumentClause::explain).collect()
    }

    /// Length of the printed query in bytes.
    pub(super) fn printed_bytes(&self) -> usize {
        self.to_string().len()
    }
}

impl fmt::Display for DocumentQuery {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

fn too_long(at: usize) -> FilterFault {
    FilterFault::new(at, "a query of at most 65,536 bytes, as written and in its canonical form")
}
