//! Properties of the index: its answers are those of the nodes themselves, and it forgets what it is told to forget.

#![expect(clippy::unwrap_used, reason = "tests end by panic")]

mod equal_answers;
mod index;
mod random_filters;
mod random_fleet;
