//! What stolen credentials permit: every role over the raw protocol against a real broker, with a list of attempts, a
//! matrix of all subjects and operations, and random sequences. What a local user can change, and what texts of callers
//! cost.

mod attempts;
mod broker_memory;
mod buckets;
mod fixture;
mod leaf_nodes;
mod lying_directory;
mod matrix;
mod protected_files;
mod puppet_user;
mod random;
mod read_actions;
mod rendering;
mod reply_subjects;
mod request_ids;
mod ssh_certificates;
mod state_directory;
mod terminal;
