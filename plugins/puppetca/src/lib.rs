//! `puppetca`: signs, revokes, cleans and lists certificates of a Puppet authority, and compares before it signs.
//!
//! Off unless `[plugins.puppetca] enabled = true`, on the machine that may administer the authority. Two ways lead there: Puppet
//! Server's HTTP API (`api`) and its command line (`command`). What may be signed is decided in `desk`, the same for both.

#![warn(missing_docs)]

mod actions;
mod api;
mod authority;
mod book;
mod command;
mod desk;
mod name;
mod options;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use muster_api::{Agent, AgentError, ddl};

pub use options::{Backend, Options};

use desk::Desk;

/// The agent, with every action that its DDL declares. `state` is where is kept what was signed for whom; it is made when needed.
pub fn agent(options: Options, state: PathBuf) -> Result<Agent, AgentError> {
    let desk = Arc::new(Desk::new(options, state));
    Agent::builder(ddl::builtin("puppetca").unwrap_or_default())?
        .action(actions::List(Arc::clone(&desk)))
        .action(actions::Status(Arc::clone(&desk)))
        .action(actions::Sign(Arc::clone(&desk)))
        .action(actions::Revoke(Arc::clone(&desk)))
        .action(actions::Clean(desk))
        .build()
}
