//! What an operator does beside asking the fleet: diagnose it, bundle external agents, and check policies as files.

pub mod bundle;
pub mod doctor;
pub mod policy;
