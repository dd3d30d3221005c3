//! Tests that `make slow` runs: each takes minutes, waits for what happens rarely, or needs the programs of an earlier commit or of a release.

mod alerts;
mod drill;
mod old_roots;
mod version_skew;
