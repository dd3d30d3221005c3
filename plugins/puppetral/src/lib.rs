//! `puppetral`: brings single resources of a machine to a described state, and reads the state they are in.
//!
//! One resource per call, checked before anything is touched. Changes on one node follow each other, and wait for a run of
//! Puppet to end; reading and planning wait for nobody. What may be changed at all is said by [`Options`]. The resources
//! themselves are the engine's work; nothing here touches a file, a user or a process except through it and the system.

#![warn(missing_docs)]

mod actions;
mod change;
mod engines;
mod managed;
mod options;
mod policy;
mod puppet;
mod refusal;
mod run_lock;
mod shown;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use muster_api::{Agent, AgentError, ddl};

pub use options::Options;

/// The agent, with every action that its DDL declares.
pub fn agent(options: Options) -> Result<Agent, AgentError> {
    let document = ddl::builtin("puppetral").unwrap_or_default();
    let options = Arc::new(options);
    let engines = Arc::new(engines::Engines::new(Arc::clone(&options)));
    let changer = change::Changer::new(Arc::clone(&options), Arc::clone(&engines));
    let changer = Arc::new(changer);
    Agent::builder(document)?
        .action(actions::Do(Arc::clone(&changer)))
        .action(actions::Plan(changer))
        .action(actions::Find(options, Arc::clone(&engines)))
        .action(actions::Search(engines))
        .build()
}
