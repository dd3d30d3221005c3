//! `puppetca`: signs, revokes, cleans and lists certificates of a Puppet authority. Compares a request with the caller's values before signing.
//!
//! Disabled unless `[plugins.puppetca] enabled = true`, on the machine that may administer the authority. There are two backends: Puppet
//! Server's HTTP API (`api`) and its command line (`command`). `ca_service` decides what may be signed, the same way for both.

mod actions;
mod api;
mod authority;
mod ca_service;
mod command;
mod name;
mod name_locks;
mod options;
mod signing_records;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use muster_api::{Agent, AgentError, DaemonContext, NodePlugin, PluginResult};
use muster_contract::puppetca::{
    PuppetcaAgent, PuppetcaClean, PuppetcaList, PuppetcaRevoke, PuppetcaSign, PuppetcaStatus,
};

pub use options::{CaBackend, Options};

use ca_service::CaService;

/// Builds the agent with every action that its DDL declares. `state` is the directory of the signing records, created on first use.
pub fn build_agent(options: Options, state: PathBuf) -> Result<Agent, AgentError> {
    let service = Arc::new(CaService::new(options, state));
    Agent::builder_for::<PuppetcaAgent>()?
        .blocking_action(PuppetcaList, &service, actions::list_names)
        .blocking_action(PuppetcaStatus, &service, actions::query_status)
        .blocking_action(PuppetcaSign, &service, actions::sign_request)
        .blocking_action(PuppetcaRevoke, &service, actions::revoke_certificate)
        .blocking_action(PuppetcaClean, &service, actions::clean_certificate)
        .build()
}

#[derive(Debug, Clone)]
pub struct PuppetcaPlugin {
    options: Options,
    records: PathBuf,
}

impl NodePlugin for PuppetcaPlugin {
    const NAME: &'static str = "puppetca";
    type Options = Options;
    type Shared = ();

    fn configure(options: Options, daemon: &DaemonContext, (): ()) -> PluginResult<Self> {
        Ok(Self { options, records: daemon.state.join("puppetca") })
    }

    fn is_enabled(&self) -> bool {
        self.options.enabled
    }

    fn build_agent(&self) -> Result<Agent, AgentError> {
        build_agent(self.options.clone(), self.records.clone())
    }
}
