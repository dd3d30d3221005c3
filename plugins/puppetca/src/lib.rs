//! `puppetca`: signs, revokes, cleans and lists certificates of a Puppet authority, and compares before it signs.
//!
//! Off unless `[plugins.puppetca] enabled = true`, on the machine that may administer the authority. Two ways lead there: Puppet
//! Server's HTTP API (`api`) and its command line (`command`). What may be signed is decided in `desk`, the same for both.

#![warn(missing_docs)]

mod actions;
mod api;
mod authority;
mod ca_service;
mod command;
mod name;
mod options;
mod signing_records;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use muster_api::{Agent, AgentError, ddl};

pub use options::{CaBackend, Options};

use ca_service::CaService;

/// The agent, with every action that its DDL declares. `state` is where is kept what was signed for whom; it is made when needed.
pub fn build_agent(options: Options, state: PathBuf) -> Result<Agent, AgentError> {
    let desk = Arc::new(CaService::new(options, state));
    Agent::builder(ddl::builtin_agent("puppetca").unwrap_or_default())?
        .with_action(actions::PuppetcaListAction(Arc::clone(&desk)))
        .with_action(actions::PuppetcaStatusAction(Arc::clone(&desk)))
        .with_action(actions::PuppetcaSignAction(Arc::clone(&desk)))
        .with_action(actions::PuppetcaRevokeAction(Arc::clone(&desk)))
        .with_action(actions::PuppetcaCleanAction(desk))
        .build()
}
