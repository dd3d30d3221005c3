//! Tests that `make slow` runs: each takes minutes, waits for what happens rarely, or needs the programs of an earlier commit.

mod alerts;
mod drill;
mod version_skew;
