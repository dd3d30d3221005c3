//! Tests that `make slow` runs: each takes minutes, or waits for what happens rarely.

mod alerts;
mod drill;
