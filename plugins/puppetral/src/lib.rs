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

use muster_api::ddl::Ddl;
use muster_api::{Agent, AgentBuilder, AgentError, ddl};

pub use options::Options;

/// The agent, with every action that its DDL declares.
pub fn agent(options: Options) -> Result<Agent, AgentError> {
    let document = ddl::builtin("puppetral").unwrap_or_default();
    with_actions(Agent::builder(document)?, options)
}

/// The same with a schema that another has already: this agent keeps the queue of a node's changes, so nodes that live in one process
/// have one each.
pub fn agent_over(schema: Arc<Ddl>, options: Options) -> Result<Agent, AgentError> {
    with_actions(Agent::builder_over(schema), options)
}

fn with_actions(agent: AgentBuilder, options: Options) -> Result<Agent, AgentError> {
    let options = Arc::new(options);
    let engines = Arc::new(engines::Engines::new(Arc::clone(&options)));
    let changer = change::Changer::new(Arc::clone(&options), Arc::clone(&engines));
    let changer = Arc::new(changer);
    agent
        .action(actions::Do(Arc::clone(&changer)))
        .action(actions::Plan(changer))
        .action(actions::Find(options, Arc::clone(&engines)))
        .action(actions::Search(engines))
        .build()
}
