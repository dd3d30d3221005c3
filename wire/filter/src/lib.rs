//! Node filters: facts, classes, agents, identities, boolean expressions over them, and query documents.
//!
//! A [`NodeFilter`] is parsed from command-line flags or from a request's JSON. It is checked and compiled during parsing, so evaluation
//! cannot fail: [`NodeFilter::evaluate`] is a pure function of a [`NodeView`](crate::state::NodeView) and of the [`KnownLookups`] of
//! the node's data sources.
//! A node must satisfy every given kind, and all of several facts, classes or agents; several identities are alternatives.
//! A [`SelectExpression`] or a [`DocumentQuery`] covers all other combinations.
//!
//! An empty filter matches every node. No other input does: empty flags, empty elements, empty lists, unknown keys and invalid
//! patterns are errors from every source, and never a wider target.
//!
//! ```
//! use muster_filter::NodeFilter;
//!
//! let filter = NodeFilter::default().with_words("customer=acme mysql::master")?;
//! assert_eq!(
//!     filter.explain(),
//!     "nodes whose fact customer equals \"acme\" and that have class mysql::master"
//! );
//! # Ok::<(), muster_filter::FilterError>(())
//! ```

#![warn(missing_docs)]

mod ast;
mod boolean_tree;
mod document;
mod error;
mod eval;
mod explain;
mod fact_names;
mod fact_patterns;
mod index;
mod json;
mod limits;
mod lookup;
mod necessary;
mod number;
mod parse;
mod pattern;
mod select;
mod sources;
pub mod state;
mod term;
mod text;
mod words;

pub use ast::{MAX_FILTER_BYTES, MAX_FILTER_ELEMENTS, NodeFilter};
pub use document::{DocumentQuery, compile_postgres_regex, parse_date_millis, read_pql_syntax};
pub use error::FilterError;
pub use fact_names::ReferencedFacts;
pub use fact_patterns::FactPatterns;
pub use limits::{
    MAX_QUERY_BYTES, MAX_QUERY_CONDITIONS, MAX_QUERY_DEPTH, MAX_QUERY_REGEXES, MAX_SELECT_BYTES,
    MAX_SELECT_DEPTH, MAX_SELECT_LOOKUPS, MAX_SELECT_REGEXES, MAX_SELECT_TERMS,
};
pub use lookup::{DataLookup, DataLookupResult, EvaluationProgress, KnownLookups, TruthValue};
pub use necessary::{FactIndexKey, NecessaryCondition, fact_index_keys};
pub use pattern::{FilterPattern, FilterRegex, MAX_PATTERN_BYTES};
pub use select::{AssumedOutput, SelectExpression};
pub use sources::{DeclaredQuery, DeclaredSource, DeclaredSources, OutputKind, QueryCheck};
pub use term::{FactOperator, FactTerm, parse_boolean};
