//! `puppetral`: brings single resources of a machine to a described state, and reads the state they are in.
//!
//! One resource per call, checked before anything is touched. Changes on one node follow each other, and wait for a run of
//! Puppet to end; reading and planning wait for nobody. What may be changed at all is said by [`Options`]. The resources
//! themselves are the engine's work; nothing here touches a file, a user or a process except through it and the system.

#![warn(missing_docs)]

mod action_errors;
mod actions;
mod change;
mod engines;
mod managed;
mod options;
mod policy;
mod properties;
mod puppet;
mod run_lock;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use muster_api::ddl::AgentDdl;
use muster_api::{Agent, AgentBuilder, AgentError, ddl};

pub use options::Options;

/// The agent, with every action that its DDL declares.
pub fn build_agent(options: Options) -> Result<Agent, AgentError> {
    let document = ddl::builtin_agent("puppetral").unwrap_or_default();
    add_actions(Agent::builder(document)?, options)
}

/// The same with a schema that another has already: this agent keeps the queue of a node's changes, so nodes that live in one process
/// have one each.
pub fn build_agent_with_schema(
    schema: Arc<AgentDdl>,
    options: Options,
) -> Result<Agent, AgentError> {
    add_actions(Agent::builder_from_ddl(schema), options)
}

fn add_actions(agent: AgentBuilder, options: Options) -> Result<Agent, AgentError> {
    let options = Arc::new(options);
    let engines = Arc::new(engines::EngineFactory::new(Arc::clone(&options)));
    let changer = change::ResourceChanger::new(Arc::clone(&options), Arc::clone(&engines));
    let changer = Arc::new(changer);
    agent
        .with_action(actions::PuppetralDoAction(Arc::clone(&changer)))
        .with_action(actions::PuppetralPlanAction(changer))
        .with_action(actions::PuppetralFindAction(options, Arc::clone(&engines)))
        .with_action(actions::PuppetralSearchAction(engines))
        .build()
}
