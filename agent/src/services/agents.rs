//! The agents and data sources of a daemon, and the configuration sections that they read.
//!
//! A new plugin is registered here, and nowhere else in the daemon; a service in `central`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use muster_agents::catalog::CatalogPlugin;
use muster_agents::config::{ConfigPlugin, Deployments};
use muster_agents::filecopy::FilecopyPlugin;
use muster_agents::filemgr::FilemgrPlugin;
use muster_agents::motd::{MotdPlugin, MotdRenderer};
use muster_agents::nettest::NettestPlugin;
use muster_agents::nrpe::{CheckMonitor, NrpePlugin};
use muster_agents::package::{PackagePlugin, PackageWorkers};
use muster_agents::process::ProcessPlugin;
use muster_agents::puppetral::PuppetralPlugin;
use muster_agents::release::{ReleaseFollower, ReleasePlugin, ReleaseShared};
use muster_agents::restart::cycle::MachinePaths;
use muster_agents::restart::{
    DetachedLauncher, RestartManager, RestartOptions, RestartPlugin, RestartStore, RestartTarget,
};
use muster_agents::rpcutil::RpcutilPlugin;
use muster_agents::service::{DaemonRestarter, ServicePlugin};
use muster_agents::shell::ShellPlugin;
use muster_agents::ssh::{LoginOptions, SshCaPlugin, SshPlugin};
use muster_agents::tunnel::{TunnelHub, TunnelPlugin};
use muster_api::system::System;
use muster_api::system::real::RealSystem;
use muster_api::{
    ActionError, Agent, AgentError, DaemonContext, DataSourceError, HistoryRecorder, NodePlugin,
    PluginError, PluginResult, StateChanges, StateSource, ValidatedDataSource,
};
use muster_bus::Bus;
use muster_engine::lock::puppet_state_dirs;
use muster_host::external::{AgentDirectory, SandboxHelper};
use muster_host::{AgentRegistry, RegistryError};
use muster_node::config::{Config, PluginSections};
use muster_node::machine::node_state::SshStateSource;
use muster_provision::puppetca::PuppetcaPlugin;
use muster_provision::{DeliveryTarget, ProvisionPlugin, ProvisionShared};
use muster_provisioner::{ProvisionerHandle, ProvisionerPlugin};
use muster_puppet::again::{AgainMonitor, AgainPlugin, AgainShared};
use muster_puppet::permits::{PermitClient, PermitPlugin};
use muster_puppet::{PuppetPlugin, PuppetShared};
use muster_wire::identity::Identity;
use tokio::sync::Notify;

use crate::services::central;

#[derive(Debug, thiserror::Error)]
pub enum PluginSetupError {
    #[error("cannot load an agent")]
    Agent(#[from] AgentError),
    #[error("cannot load a data source")]
    Data(#[from] DataSourceError),
    #[error(transparent)]
    Plugin(#[from] PluginError),
    #[error("cannot find the path of the rpcd program")]
    CurrentExe(#[source] io::Error),
    #[error("cannot register the agents")]
    Registry(#[from] RegistryError),
}

/// What agents share with the daemon. Connect the permits and the provisioner when there is a broker.
#[derive(Debug, Clone)]
pub struct BrokerHandles {
    pub permits: PermitClient,
    pub provisioner: ProvisionerHandle,
    pub tunnels: TunnelHub,
    /// Notified when the agent `provision` changes the markers of the node.
    pub provisioning_changed: Arc<Notify>,
    /// The daemon's files to which a provisioner can deliver; `None` if the daemon does not run.
    pub delivery: Option<Arc<dyn DeliveryTarget>>,
    /// The deployments of the daemon's files; `None` if the daemon does not run.
    pub deployments: Option<Arc<Deployments>>,
}

impl BrokerHandles {
    /// The handles of this node, without a broker.
    pub fn new(identity: Identity) -> Self {
        Self {
            permits: PermitClient::new(identity),
            provisioner: ProvisionerHandle::default(),
            tunnels: TunnelHub::default(),
            provisioning_changed: Arc::default(),
            delivery: None,
            deployments: None,
        }
    }

    /// Gives the node's connection to those that use it.
    pub(crate) fn connect(&self, bus: &Bus) {
        self.permits.connect(bus.clone());
        self.tunnels.connect(bus.clone());
    }
}

#[derive(Debug)]
pub struct ConfiguredPlugins {
    pub agents: Vec<Agent>,
    /// The data sources, sorted by name.
    pub data_sources: Vec<ValidatedDataSource>,
    /// The subsystems whose state the node reports.
    pub state_sources: Vec<Arc<dyn StateSource>>,
    /// Notified when one of them has changed.
    pub state_changes: StateChanges,
    /// What works between requests, too.
    pub background: BackgroundPlugins,
}

/// What plugins do or keep between requests.
#[derive(Debug)]
pub struct BackgroundPlugins {
    /// The agent `puppet`, which also works in the background between requests.
    pub puppet: PuppetPlugin,
    /// The runs that are asked for; `None` without the agent `again`.
    pub again: Option<AgainMonitor>,
    /// The scheduled checks; `None` without the agent `nrpe`.
    pub checks: Option<CheckMonitor>,
    /// The promotions of the node; `None` without the agent `release`.
    pub releases: Option<ReleaseFollower>,
    /// Directory of the refresh ledger.
    pub engine_dir: PathBuf,
    pub packages: Arc<PackageWorkers>,
    pub motd: Arc<MotdRenderer>,
    /// How logins with certificates are decided; `None` if the node does not accept them.
    pub logins: Option<LoginOptions>,
}

/// Loads everything that is read-only, to check that the configured plugins can be loaded.
pub(crate) fn check_plugins(
    config: &Config,
) -> Result<(BackgroundPlugins, AgentRegistry), PluginSetupError> {
    let handles = BrokerHandles::new(config.identity.clone());
    let plugins = configured_plugins(config, &handles, HistoryRecorder::default())?;
    let registry = build_registry(config, plugins.agents)?;
    config.external_options()?;
    Ok((plugins.background, registry))
}

pub(crate) fn configured_plugins(
    config: &Config,
    handles: &BrokerHandles,
    history: HistoryRecorder,
) -> Result<ConfiguredPlugins, PluginSetupError> {
    let daemon = DaemonContext { history, ..daemon_context(config) };
    build_plugins(&config.plugins, &daemon, handles)
}

/// Every plugin of the daemon, with options from these sections `[plugins.NAME]`.
fn build_plugins(
    sections: &PluginSections,
    daemon: &DaemonContext,
    handles: &BrokerHandles,
) -> Result<ConfiguredPlugins, PluginSetupError> {
    let mut builder = PluginListBuilder::new(sections, daemon);
    let permits = || handles.permits.clone();
    let catalog = builder.add::<CatalogPlugin>(())?;
    let puppet = builder.add::<PuppetPlugin>(PuppetShared {
        permits: permits(),
        engine_dir: catalog.options().state_dir.clone(),
    })?;
    let again = builder
        .add::<AgainPlugin>(AgainShared { puppet: puppet.run_handle(), permits: permits() })?;
    builder.add::<ConfigPlugin>(handles.deployments.clone())?;
    central::check_sections(sections)?;
    builder.add::<FilecopyPlugin>(())?;
    builder.add::<FilemgrPlugin>(())?;
    let motd = builder.add::<MotdPlugin>(sandbox_helper()?.program)?.renderer();
    builder.add::<NettestPlugin>(())?;
    let checks = builder.add::<NrpePlugin>(())?.monitor();
    let packages = Arc::new(PackageWorkers::new(daemon, current_program()?));
    builder.add::<PackagePlugin>(Arc::clone(&packages))?;
    builder.add::<PermitPlugin>(permits())?;
    builder.add::<ProcessPlugin>(())?;
    builder.add::<ProvisionPlugin>(ProvisionShared {
        permits: permits(),
        changed: Arc::clone(&handles.provisioning_changed),
        delivery: handles.delivery.clone(),
    })?;
    builder.add::<ProvisionerPlugin>(handles.provisioner.clone())?;
    builder.add::<PuppetcaPlugin>(())?;
    builder.add::<PuppetralPlugin>(())?;
    let shared =
        ReleaseShared { engine: Arc::clone(catalog.options()), puppet: puppet.run_handle() };
    let releases = builder.add::<ReleasePlugin>(shared)?.follower();
    let restarts = restart_manager(sections, daemon, catalog.options())?;
    builder.add::<RestartPlugin>(restarts.clone())?;
    builder.add::<RpcutilPlugin>(())?;
    builder.add::<ServicePlugin>(Arc::new(DaemonRestart(restarts)))?;
    builder.add::<ShellPlugin>(())?;
    let logins = builder.add::<SshPlugin>(())?.login_options();
    builder.add::<SshCaPlugin>(())?;
    builder.add::<TunnelPlugin>(handles.tunnels.clone())?;
    let engine_dir = catalog.options().state_dir.clone();
    let again = again.monitor();
    let background =
        BackgroundPlugins { puppet, again, checks, releases, engine_dir, packages, motd, logins };
    Ok(builder.finish(background))
}

/// Configures plugins, and collects their agents and data sources.
struct PluginListBuilder<'a> {
    sections: &'a PluginSections,
    daemon: &'a DaemonContext,
    agents: Vec<Agent>,
    data_sources: Vec<ValidatedDataSource>,
    state_sources: Vec<Arc<dyn StateSource>>,
}

impl<'a> PluginListBuilder<'a> {
    fn new(sections: &'a PluginSections, daemon: &'a DaemonContext) -> Self {
        let state_sources: Vec<Arc<dyn StateSource>> = vec![Arc::new(SshStateSource)];
        Self { sections, daemon, agents: Vec::new(), data_sources: Vec::new(), state_sources }
    }

    fn add<P: NodePlugin>(&mut self, shared: P::Shared) -> Result<P, PluginSetupError> {
        let plugin = configure_plugin::<P>(self.sections, self.daemon, shared)?;
        self.agents.extend(plugin.agents()?);
        self.data_sources.extend(plugin.data_sources()?);
        self.state_sources.extend(plugin.state_sources());
        Ok(plugin)
    }

    fn finish(mut self, background: BackgroundPlugins) -> ConfiguredPlugins {
        self.data_sources.sort_by(|a, b| a.name().cmp(b.name()));
        let Self { agents, data_sources, state_sources, .. } = self;
        let state_changes = self.daemon.state_changes.clone();
        ConfiguredPlugins { agents, data_sources, state_sources, state_changes, background }
    }
}

/// The daemon's own program, as it was when this process started.
fn current_program() -> Result<PathBuf, PluginSetupError> {
    std::env::current_exe().map_err(PluginSetupError::CurrentExe)
}

/// The running program, also after an upgrade has replaced its file.
fn sandbox_helper() -> Result<SandboxHelper, PluginSetupError> {
    SandboxHelper::current_exe().map_err(PluginSetupError::CurrentExe)
}

/// Hands the restart of the daemon to the agent `restart`.
#[derive(Debug)]
struct DaemonRestart(RestartManager);

impl DaemonRestarter for DaemonRestart {
    fn is_daemon(&self, service: &str) -> bool {
        RestartTarget::parse_unit(service).is_ok_and(|target| target.is_daemon())
    }

    fn request_restart(&self) -> Result<(), ActionError> {
        // Like any restart of the agent `service`, it does not wait for runs.
        let options = RestartOptions { when_idle: false, ..RestartOptions::default() };
        self.0
            .request_restart(&RestartTarget::daemon(), &options)
            .map(drop)
            .map_err(ActionError::from_cause)
    }
}

fn configure_plugin<P: NodePlugin>(
    sections: &PluginSections,
    daemon: &DaemonContext,
    shared: P::Shared,
) -> PluginResult<P> {
    P::configure(parse_options::<P>(sections)?, daemon, shared)
}

fn parse_options<P: NodePlugin>(sections: &PluginSections) -> PluginResult<P::Options> {
    P::parse_options(sections.get(P::NAME).cloned().unwrap_or_default())
}

/// What the plugins may know about this daemon.
fn daemon_context(config: &Config) -> DaemonContext {
    DaemonContext {
        root: config.paths.root.clone(),
        state: config.paths.state.clone(),
        own_paths: daemon_paths(config),
        state_changes: StateChanges::default(),
        history: HistoryRecorder::default(),
    }
}

pub fn default_data_sources(
    identity: Identity,
    state: &Path,
) -> Result<Vec<ValidatedDataSource>, PluginSetupError> {
    let daemon =
        DaemonContext { root: "/".into(), state: state.to_owned(), ..DaemonContext::default() };
    let plugins = build_plugins(&PluginSections::new(), &daemon, &BrokerHandles::new(identity))?;
    Ok(plugins.data_sources)
}

/// A registry of these agents, each with its limits.
pub(crate) fn build_registry(
    config: &Config,
    agents: Vec<Agent>,
) -> Result<AgentRegistry, PluginSetupError> {
    let mut registry = AgentRegistry::new();
    for agent in agents {
        let limits = config.limits.agent_limits(agent.name());
        registry.add(agent, limits)?;
    }
    Ok(registry)
}

/// The external agents of the configuration; their directories are not scanned yet.
pub fn open_agent_directory(
    config: &Config,
    config_file: &Path,
    built_in: &AgentRegistry,
) -> Result<AgentDirectory, PluginSetupError> {
    Ok(AgentDirectory::new(
        config.paths.ddls.clone(),
        config.external_options()?,
        built_in.names().iter().cloned().collect(),
        sandbox_helper()?,
        config_file.to_owned(),
    ))
}

/// Configuration, state, audit log and credentials of this daemon, at their configured paths.
fn daemon_paths(config: &Config) -> Vec<PathBuf> {
    let (paths, broker) = (&config.paths, &config.broker);
    let mut all_paths = vec![
        paths.state.clone(),
        paths.policies.clone(),
        paths.ddls.clone(),
        paths.facts_d.clone(),
        paths.audit.clone(),
        broker.credentials.clone(),
        config.trust.account.clone(),
    ];
    all_paths.extend(config.files().iter().cloned());
    all_paths.extend(config.provisioning.credentials.clone());
    all_paths.extend(config.broker.ca.clone());
    all_paths
}

/// Directory of the schedules of checks.
pub(crate) fn check_schedules(config: &Config) -> Result<PathBuf, PluginSetupError> {
    Ok(parse_options::<NrpePlugin>(&config.plugins)?.schedules)
}

/// The restart manager of this node. Nothing is read or written before the first restart.
pub(crate) fn open_restarts(config: &Config) -> Result<RestartManager, PluginSetupError> {
    let daemon = daemon_context(config);
    let catalog = configure_plugin::<CatalogPlugin>(&config.plugins, &daemon, ())?;
    restart_manager(&config.plugins, &daemon, catalog.options())
}

fn restart_manager(
    sections: &PluginSections,
    daemon: &DaemonContext,
    catalog: &muster_agents::catalog::Options,
) -> Result<RestartManager, PluginSetupError> {
    let puppet = parse_options::<PuppetPlugin>(sections)?;
    let puppet_state = catalog.puppet_state.clone().or_else(|| {
        // Requested runs use this directory. Runs from cron or a console may use the default ones.
        let configured = RealSystem::new(daemon.root.clone()).host_path(&puppet.vardir?);
        let mut directories = puppet_state_dirs(&daemon.root);
        directories.push(configured.join("state"));
        Some(directories)
    });
    let engine = catalog.state_dir.clone();
    build_restart_manager(daemon.root.clone(), &daemon.state, engine, puppet_state)
}

/// A restart manager for the machine with this root. `puppet` are Puppet's state directories; absent: those of its packages.
pub(crate) fn build_restart_manager(
    root: PathBuf,
    state: &Path,
    engine: PathBuf,
    puppet: Option<Vec<PathBuf>>,
) -> Result<RestartManager, PluginSetupError> {
    let system: Arc<dyn System> = Arc::new(RealSystem::new(root));
    let paths = MachinePaths {
        root: system.root().to_owned(),
        engine,
        puppet: puppet.unwrap_or_else(|| puppet_state_dirs(system.root())),
    };
    Ok(RestartManager::new(
        restart_store(state),
        paths,
        Arc::new(DetachedLauncher(current_program()?)),
        system,
    ))
}

pub(crate) fn restart_store(state: &Path) -> RestartStore {
    RestartStore::new(state.join("restart"))
}
