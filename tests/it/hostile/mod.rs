//! What stolen credentials permit: every role over the raw protocol against a real broker, with a list of attempts, a
//! matrix of all subjects and operations, and random sequences.

mod attempts;
mod broker_memory;
mod buckets;
mod fixture;
mod leaf_nodes;
mod matrix;
mod random;
mod read_actions;
