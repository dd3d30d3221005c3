//! What an operator does beside a request to the fleet: copies, logins, tunnels, checks, deployments, diagnosis, bundles of external agents, and policies as files.

pub mod ansible;
mod batches;
pub mod bundle;
pub mod check;
pub mod copy;
pub mod deploy;
pub mod doctor;
pub mod policy;
pub mod ssh;
mod steps;
pub mod tunnel;

pub use batches::{NodeResult, NodeResults};
