//! Bounds of select expressions and query documents, from any source.

/// Longest expression in bytes, as written and as printed.
pub const MAX_SELECT_BYTES: usize = 4096;
/// Deepest nesting of `( )`, `not` and functions.
pub const MAX_SELECT_DEPTH: usize = 32;
/// Most conditions in an expression.
pub const MAX_SELECT_TERMS: usize = 200;
/// Most regular expressions in an expression: each is compiled.
pub const MAX_SELECT_REGEXES: usize = 64;
/// Most data source lookups in an expression: each may be expensive on the node.
pub const MAX_SELECT_LOOKUPS: usize = 16;

/// Longest query in bytes, as written and as printed.
pub const MAX_QUERY_BYTES: usize = 64 * 1024;
/// Deepest nesting of documents and lists.
pub const MAX_QUERY_DEPTH: usize = 32;
/// Most conditions and values in a query.
pub const MAX_QUERY_CONDITIONS: usize = 1000;
/// Most regular expressions in a query: each is compiled.
pub const MAX_QUERY_REGEXES: usize = 64;
