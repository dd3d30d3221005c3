//! Properties of the index: it finds the same nodes as the nodes' own evaluation, and keeps nothing of removed nodes.

#![expect(clippy::unwrap_used, reason = "tests end by panic")]

mod equal_answers;
mod index;
mod memory;
mod random_filters;
mod random_fleet;
