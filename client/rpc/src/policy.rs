//! Policies as files on this machine: read as a node reads them, looked over, and tried out. What they mean is said by
//! [`muster_wire::policy`]; nobody is asked, and nothing prints.

mod cases;
mod data;
mod error;
mod lint;
mod node;
mod read;

pub use cases::{PolicyTestOutcome, PolicyTestSuite};
pub use data::AssumedDataValues;
pub use error::PolicyError;
pub use lint::{LintFinding, LintLevel, LoadedPolicies, lint_policies};
pub use node::SavedNode;
pub use read::{read_directory, read_paths};
