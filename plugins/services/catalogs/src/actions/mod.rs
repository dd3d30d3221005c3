//! The agent `compiler`: compiles nodes on request, shows what was compiled, and stores releases.

mod change;
mod content;
mod context;
mod release;
mod show;

use muster_api::{Agent, AgentError};
use muster_contract::compiler::{
    CompilerAgent, CompilerAnnounce, CompilerCatalog, CompilerCheck, CompilerCollect,
    CompilerCompile, CompilerContent, CompilerDiff, CompilerDraft, CompilerEnvironments,
    CompilerList, CompilerPromote, CompilerPublish, CompilerRelease, CompilerReleases,
    CompilerShow, CompilerVerify,
};

pub use context::CompilerActions;

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
