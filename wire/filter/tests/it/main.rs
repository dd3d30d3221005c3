//! Filters through their public functions, in one program.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod filter;
mod select;
mod sources;
