//! Catalogs that are compiled ahead, and what belongs to them in the broker. Pure: nothing reads a bucket.

pub mod content;
