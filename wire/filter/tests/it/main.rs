//! Filters through their public functions, in one program.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod filter;
mod select;
mod sources;
