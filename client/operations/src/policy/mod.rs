//! Reads, checks and tests policies as local files. [`muster_policy`] defines their meaning; nothing here sends requests or prints.

mod cases;
mod data;
mod error;
mod lint;
mod node;
mod read;

pub use cases::{PolicyTestOutcome, PolicyTestSuite};
pub use data::AssumedDataValues;
pub use error::PolicyError;
pub use lint::{LintFinding, LintLevel, lint_policies};
pub use node::SavedNode;
pub use read::{PolicyFilesReading, read_directory, read_paths};
