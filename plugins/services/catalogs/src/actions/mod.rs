//! The agent `compiler`: compiles nodes on request, shows what was compiled, and stores releases.

mod change;
mod content;
mod release;
mod show;

use std::sync::Arc;

use muster_api::base::error_chain;
use muster_api::{ActionError, Agent, AgentError};
use muster_bus::BucketError;
use muster_contract::compiler::{
    CompilerAgent, CompilerAnnounce, CompilerCatalog, CompilerCheck, CompilerCollect,
    CompilerCompile, CompilerContent, CompilerDiff, CompilerDraft, CompilerEnvironments,
    CompilerList, CompilerPromote, CompilerPublish, CompilerRelease, CompilerReleases,
    CompilerShow, CompilerVerify,
};
use muster_directory::QueryError;
use muster_filter::NodeFilter;
use muster_wire::identity::Identity;

use crate::code::CodeStore;
use crate::handle::CompilerHandle;
use crate::options::Environment;
use crate::releases::ReleaseStore;
use crate::worker::CompileWorker;

/// What the actions use.
#[derive(Debug, Clone)]
pub struct CompilerActions {
    pub handle: CompilerHandle,
    pub code: CodeStore,
    pub releases: ReleaseStore,
    /// Compiles for checks.
    pub checker: Arc<CompileWorker>,
}

/// The agent `compiler`. The daemon offers it through the service's own connection, so it is not among the agents of the node.
pub fn build_agent(actions: &CompilerActions) -> Result<Agent, AgentError> {
    Agent::builder_for::<CompilerAgent>()?
        .action(CompilerCompile, actions, change::compile)
        .action(CompilerAnnounce, actions, change::announce)
        .action(CompilerCheck, actions, change::check)
        .blocking_action(CompilerList, actions, |actions, _, input| {
            show::list(&actions.handle, &input)
        })
        .blocking_action(CompilerShow, actions, |actions, _, input| {
            show::show(&actions.handle, &input)
        })
        .action(CompilerCatalog, actions, show::catalog)
        .blocking_action(CompilerEnvironments, actions, |actions, _, _| {
            show::environments(&actions.handle)
        })
        .action(CompilerDraft, actions, release::draft)
        .action(CompilerPublish, actions, release::publish)
        .action(CompilerReleases, actions, release::releases)
        .action(CompilerRelease, actions, release::release)
        .action(CompilerDiff, actions, release::diff)
        .action(CompilerPromote, actions, release::promote)
        .action(CompilerContent, actions, content::content)
        .action(CompilerVerify, actions, content::verify)
        .action(CompilerCollect, actions, content::collect)
        .build()
}

/// The names of the nodes that match a filter.
fn select_nodes(
    handle: &CompilerHandle,
    filter: Option<&str>,
) -> Result<Vec<Identity>, ActionError> {
    let filter: NodeFilter = match filter {
        Some(text) => serde_json::from_str(text)
            .map_err(|error| ActionError::invalid_input(format!("filter: {error}")))?,
        None => NodeFilter::default(),
    };
    let found =
        handle.directory().select_nodes(&filter, &[]).map_err(|error| invalid_query(&error))?;
    let found = found.ok_or_else(not_ready)?;
    Ok(found.into_iter().map(|node| node.identity).collect())
}

fn not_ready() -> ActionError {
    ActionError::failed(
        "the compiler has just started and has not read the records of all nodes yet; try again in some seconds",
    )
}

fn find_environment<'a>(
    actions: &'a CompilerActions,
    name: &str,
) -> Result<&'a Environment, ActionError> {
    let environments = actions.handle.environments();
    environments.iter().find(|environment| environment.name == name).ok_or_else(|| {
        let known: Vec<&str> = environments.iter().map(|one| one.name.as_str()).collect();
        let known = known.join(", ");
        ActionError::invalid_input(format!("there is no environment {name}; there are: {known}"))
    })
}

fn parse_node(text: &str) -> Result<Identity, ActionError> {
    Identity::parse(text).map_err(|error| ActionError::invalid_input(format!("node: {error}")))
}

fn invalid_query(error: &QueryError) -> ActionError {
    ActionError::invalid_input(error_chain(error))
}

fn store_failure(error: BucketError) -> ActionError {
    ActionError::from_cause(error)
}
