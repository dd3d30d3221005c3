//! The provisioner: makes nodes of instances, step by step, and takes nodes out of the fleet again.
//!
//! Several hosts may run it; one leads ([`leader`]). What is known of each node is a [`record`], kept by the broker and written before
//! and after each step of the [`plan`]; so a leader that dies loses nothing, and its successor goes on where it was. The steps ask the
//! agents `provision` on the node and `puppetca` on the masters ([`work`]), or agents and programs of the operator's choice.
//!
//! The agent `provisioner` shows where nodes stand, and takes wishes; [`Service::serve`] does the work.

#![warn(missing_docs)]

mod actions;
mod desk;
mod enrol;
pub mod fleet;
mod helper;
pub mod journey;
pub mod leader;
pub mod masters;
pub mod notify;
mod options;
pub mod plan;
pub mod record;
mod roll;
mod service;
pub mod store;
#[cfg(test)]
mod tests;
pub mod work;

use muster_api::{Agent, AgentError, ddl};

pub use desk::Desk;
pub use enrol::{Newcomers, NewcomersOptions};
pub use options::{AgentStep, Channel, Helper, Occasion, On, Options, StepOptions, Target};
pub use roll::{KeptRoll, RollError};
pub use service::{Service, ServiceError};

/// The agent `provisioner`.
pub fn agent(desk: &Desk) -> Result<Agent, AgentError> {
    Agent::builder(ddl::builtin("provisioner").unwrap_or_default())?
        .action(actions::Status(desk.clone()))
        .action(actions::Retry(desk.clone()))
        .action(actions::Pause(desk.clone()))
        .action(actions::Resume(desk.clone()))
        .action(actions::Retire(desk.clone()))
        .build()
}
