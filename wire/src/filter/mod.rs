//! Which nodes a request is for: facts, classes, agents, identities, and an expression over them.
//!
//! A [`NodeFilter`] is read from command-line flags or from a request's JSON, checked and compiled at once, and
//! from then on cannot fail: [`NodeFilter::evaluate`] is a plain function of a [`NodeView`](crate::state::NodeView) and of
//! what is [`KnownLookups`] of the node's data sources.
//! A node must satisfy every kind that is given, and every one of several facts, classes or agents; several
//! identities are alternatives. What that cannot say, an expression can: [`SelectExpression`].
//!
//! An empty filter matches every node. Nothing else may: empty flags, empty elements, empty lists, unknown
//! keys and broken patterns are errors wherever they come from, and never a wider target.
//!
//! ```
//! use muster_wire::filter::Filter;
//!
//! let filter = Filter::default().with_words("customer=acme mysql::master")?;
//! assert_eq!(
//!     filter.explain(),
//!     "nodes whose fact customer equals \"acme\" and that have class mysql::master"
//! );
//! # Ok::<(), muster_wire::filter::FilterError>(())
//! ```

mod ast;
mod error;
mod eval;
mod explain;
mod json;
mod lookup;
mod number;
mod parse;
mod pattern;
mod select;
mod sources;
mod term;
mod words;

pub use ast::{MAX_FILTER_BYTES, MAX_FILTER_ELEMENTS, NodeFilter};
pub use error::FilterError;
pub use lookup::{DataLookup, DataLookupResult, EvaluationProgress, KnownLookups, TruthValue};
pub use pattern::{FilterPattern, FilterRegex, MAX_PATTERN_BYTES};
pub use select::{
    AssumedOutput, MAX_SELECT_BYTES, MAX_SELECT_DEPTH, MAX_SELECT_LOOKUPS, MAX_SELECT_REGEXES,
    MAX_SELECT_TERMS, SelectExpression,
};
pub use sources::{DeclaredQuery, DeclaredSource, DeclaredSources, OutputKind, QueryCheck};
pub use term::{FactOperator, FactTerm};
