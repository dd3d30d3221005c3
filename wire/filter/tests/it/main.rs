//! Tests of the public functions for filters, in one binary.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod document;
mod filter;
mod mongodb;
mod pql;
mod select;
mod sources;
