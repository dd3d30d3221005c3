//! Policies as files on this machine: read as a node reads them, looked over, and tried out. What they mean is said by
//! [`muster_wire::policy`]; nobody is asked, and nothing prints.

mod cases;
mod data;
mod error;
mod lint;
mod node;
mod read;

pub use cases::{Cases, Outcome};
pub use data::Supposed;
pub use error::PolicyError;
pub use lint::{Finding, Level, Loaded, look_over};
pub use node::SavedNode;
pub use read::{directory, paths};
