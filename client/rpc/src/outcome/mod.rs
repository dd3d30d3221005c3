//! How a command ends: with an exit code, or with an error, its hints and its exit code.

pub mod diagnostics;
pub mod error;
pub mod exit;
