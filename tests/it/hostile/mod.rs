//! What stolen credentials are good for: every role over the raw wire against a real broker, with a list of attempts, a matrix of all
//! subjects and all operations, and random sequences.

mod actors;
mod attempts;
mod buckets;
mod matrix;
mod random;
mod read_actions;
