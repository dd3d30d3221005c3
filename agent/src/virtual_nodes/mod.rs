//! Many nodes in one process, for trying what a fleet can be asked: each with its own name, key, connection and answers, and the same
//! pipeline as a real one. Their machines are in memory: whatever is asked of them, nothing outside of this process changes.
//!
//! `rpcd virtual` is one user of it, the project's own measurements are another. Read in this order: [`Member`] says who they are,
//! [`Mould`] makes one, [`Crowd`] keeps many running, [`command`] is the program.

pub mod command;
mod crowd;
mod machine;
mod member;
mod mould;

pub use crowd::{Crowd, CrowdError};
pub use member::Member;
pub use mould::Mould;
