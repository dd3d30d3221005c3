//! `puppetral`: applies single resources to a machine, and reads their current state.
//!
//! One resource per call, validated before anything is changed. Changes on one node are serialised, and wait until a run of Puppet has ended; reading
//! and planning do not wait. [`Options`] restrict what may be changed. The engine implements the resources; this crate accesses files, users and
//! processes only through the engine and the system layer.

mod actions;
mod change;
mod engines;
mod managed;
mod options;
mod policy;
mod properties;
mod puppet;
mod report;
mod run_lock;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use muster_api::ddl::AgentDdl;
use muster_api::{Agent, AgentError, DaemonContext, NodePlugin, PluginResult, TypedAgentBuilder};
use muster_contract::puppetral::{
    PuppetralAgent, PuppetralDo, PuppetralFind, PuppetralPlan, PuppetralSearch,
};

pub use options::Options;

use actions::{apply, read};
use change::ResourceChanger;
use engines::EngineFactory;

/// Builds the agent with every action that its DDL declares.
pub fn build_agent(options: Options) -> Result<Agent, AgentError> {
    add_actions(Agent::builder_for::<PuppetralAgent>()?, options)
}

/// Builds the agent with a schema that is already parsed. The agent owns the queue of its node's changes, so each node in a process needs its own
/// agent.
pub fn build_agent_with_schema(
    schema: Arc<AgentDdl>,
    options: Options,
) -> Result<Agent, AgentError> {
    add_actions(Agent::builder_with_schema(schema), options)
}

fn add_actions(
    agent: TypedAgentBuilder<PuppetralAgent>,
    options: Options,
) -> Result<Agent, AgentError> {
    let engines = Arc::new(EngineFactory::new(Arc::new(options)));
    let changer = Arc::new(ResourceChanger::new(Arc::clone(&engines)));
    agent
        .action(PuppetralDo, &changer, apply::apply_resource)
        .action(PuppetralPlan, &changer, apply::plan_resource)
        .blocking_action(PuppetralFind, &engines, read::find_resource)
        .blocking_action(PuppetralSearch, &engines, read::search_resources)
        .build()
}

/// The agent `puppetral`.
#[derive(Debug, Clone)]
pub struct PuppetralPlugin(Options);

impl NodePlugin for PuppetralPlugin {
    const NAME: &'static str = "puppetral";
    type Options = Options;
    type Shared = ();

    fn configure(mut options: Options, daemon: &DaemonContext, (): ()) -> PluginResult<Self> {
        options.state_dir.get_or_insert_with(|| daemon.state.join("engine"));
        Ok(Self(options))
    }

    fn build_agent(&self) -> Result<Agent, AgentError> {
        build_agent(self.0.clone())
    }
}
