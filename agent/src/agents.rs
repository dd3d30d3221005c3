//! The agents and data sources of a daemon, and the configuration sections that they read.
//!
//! A new plugin is registered here, and nowhere else in the daemon.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use muster_api::system::System;
use muster_api::system::real::RealSystem;
use muster_api::{Agent, AgentError, DataSourceError, ValidatedDataSource};
use muster_engine::lock::puppet_state_dirs;
use muster_host::external::{AgentDirectory, SandboxHelper};
use muster_host::{AgentRegistry, CallLimits, RegistryError};
use muster_puppet::PuppetPlugin;
use muster_restart::cycle::MachinePaths;
use muster_restart::{DetachedLauncher, RestartManager, RestartStore};
use muster_wire::identity::SubjectName;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;

use crate::config::{self, Config};

/// Why the plugins cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum PluginSetupError {
    /// An agent is invalid.
    #[error("cannot load an agent")]
    Agent(#[from] AgentError),
    /// A data source is invalid.
    #[error("cannot load a data source")]
    Data(#[from] DataSourceError),
    /// A plugin's configuration table is invalid.
    #[error("the configuration section [plugins.{plugin}] is not valid")]
    Plugin {
        /// The plugin's name.
        plugin: &'static str,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
    /// The daemon's own program, which runs external agents, cannot be found.
    #[error("cannot find the path of the rpcd program")]
    CurrentExe(#[source] io::Error),
    /// Two agents have the same name.
    #[error("cannot register the agents")]
    Registry(#[from] RegistryError),
}

/// What agents share with the daemon. Connect the permits and the provisioner when there is a broker.
#[derive(Debug, Clone)]
pub struct BrokerHandles {
    /// Run permits.
    pub permits: muster_permits::PermitClient,
    /// The provisioning service's data.
    pub provisioner: muster_provisioner::ProvisionerHandle,
    /// Notified when the agent `provision` changes the markers of the node.
    pub provisioning_changed: Arc<Notify>,
}

impl BrokerHandles {
    /// The handles of this node, without a broker.
    pub fn new(config: &Config) -> Self {
        Self {
            permits: muster_permits::PermitClient::new(config.identity.clone()),
            provisioner: muster_provisioner::ProvisionerHandle::default(),
            provisioning_changed: Arc::default(),
        }
    }
}

/// Loads everything that is read-only, to check that the configured plugins can be loaded.
pub(crate) fn check_plugins(config: &Config) -> Result<(), PluginSetupError> {
    let handles = BrokerHandles::new(config);
    build_registry(config, &handles, &build_puppet(config, &handles.permits)?)?;
    external_options(config)?;
    configured_data_sources(config)?;
    Ok(())
}

/// The built-in agents, each with its limits; they reach the broker through these handles.
pub(crate) fn build_registry(
    config: &Config,
    handles: &BrokerHandles,
    puppet: &PuppetPlugin,
) -> Result<AgentRegistry, PluginSetupError> {
    let mut registry = AgentRegistry::new();
    for agent in builtin_agents(config, handles, puppet)? {
        let limits = agent_limits(&config.limits, agent.name());
        registry.add(agent, limits)?;
    }
    Ok(registry)
}

/// The limits of an agent.
pub fn agent_limits(configured: &config::LimitsConfig, agent: &str) -> CallLimits {
    let Ok(name) = SubjectName::parse(agent) else {
        return CallLimits::default();
    };
    let limits = configured.agent_limits(&name);
    CallLimits {
        concurrency: limits.concurrency,
        queue: limits.queue,
        output_bytes: limits.output_bytes,
        ..CallLimits::default()
    }
}

/// The configured options of external agents.
pub fn external_options(
    config: &Config,
) -> Result<muster_host::external::ExternalOptions, PluginSetupError> {
    let table = config.plugins.get("external").cloned().unwrap_or_default();
    serde_json::from_value(serde_json::Value::Object(table)).map_err(|source| {
        PluginSetupError::Plugin {
            plugin: "external",
            source,
        }
    })
}

/// The external agents of the configuration; their directories are not scanned yet.
pub fn open_agent_directory(
    config: &Config,
    config_file: &Path,
    built_in: &AgentRegistry,
) -> Result<AgentDirectory, PluginSetupError> {
    Ok(AgentDirectory::new(
        config.paths.ddls.clone(),
        external_options(config)?,
        built_in.names().iter().cloned().collect(),
        SandboxHelper::current_exe().map_err(PluginSetupError::CurrentExe)?,
        config_file.to_owned(),
    ))
}

/// The data sources for filters and `get_data`, sorted by name. `state` is the daemon's state directory.
pub fn data_sources(
    catalog: muster_catalog::Options,
    puppet: muster_puppet::Options,
    state: &Path,
) -> Result<Vec<ValidatedDataSource>, DataSourceError> {
    let mut sources = [
        muster_catalog::data_sources(catalog)?,
        muster_provision::data_sources(state.to_owned())?,
        muster_rpcutil::data_sources()?,
        muster_package::data_sources()?,
        muster_process::data_sources()?,
        muster_puppet::data_sources(puppet)?,
        muster_service::data_sources()?,
    ]
    .concat();
    sources.sort_by(|a, b| a.name().cmp(b.name()));
    Ok(sources)
}

/// The data sources with their configured options.
pub(crate) fn configured_data_sources(
    config: &Config,
) -> Result<Vec<ValidatedDataSource>, PluginSetupError> {
    Ok(data_sources(
        catalog_options(config)?,
        puppet_options(config)?,
        &config.paths.state,
    )?)
}

fn builtin_agents(
    config: &Config,
    handles: &BrokerHandles,
    puppet: &PuppetPlugin,
) -> Result<Vec<Agent>, PluginSetupError> {
    let mut agents = vec![
        muster_rpcutil::build_agent()?,
        muster_puppetral::build_agent(puppetral_options(config)?)?,
        muster_filemgr::build_agent(plugin_options(config, "filemgr")?, daemon_paths(config))?,
        muster_nettest::build_agent()?,
        muster_package::build_agent()?,
        muster_permits::build_agent(handles.permits.clone())?,
        muster_process::build_agent()?,
        muster_restart::build_agent(open_restarts(config)?)?,
        muster_service::build_agent()?,
    ];
    agents.extend(muster_catalog::build_agents(catalog_options(config)?)?);
    if provisioner_options(config)?.enabled {
        agents.push(muster_provisioner::build_agent(&handles.provisioner)?);
    }
    if puppet_options(config)?.enabled {
        agents.push(puppet.build_agent()?);
    }
    let shell: muster_shell::Options = plugin_options(config, "shell")?;
    if shell.enabled {
        agents.push(muster_shell::build_agent(
            shell,
            config.paths.state.join("shell"),
        )?);
    }
    let puppetca: muster_puppetca::Options = plugin_options(config, "puppetca")?;
    if puppetca.enabled {
        let state = config.paths.state.join("puppetca");
        agents.push(muster_puppetca::build_agent(puppetca, state)?);
    }
    let provision: muster_provision::Options = plugin_options(config, "provision")?;
    if provision.is_enabled(&config.paths.state) {
        let state = config.paths.state.clone();
        agents.push(muster_provision::build_agent(
            provision,
            state,
            handles.permits.clone(),
            Arc::clone(&handles.provisioning_changed),
        )?);
    }
    Ok(agents)
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

fn puppetral_options(config: &Config) -> Result<muster_puppetral::Options, PluginSetupError> {
    let mut options: muster_puppetral::Options = plugin_options(config, "puppetral")?;
    options
        .state_dir
        .get_or_insert_with(|| config.paths.state.join("engine"));
    Ok(options)
}

/// The configured options of provisioning.
pub(crate) fn provisioner_options(
    config: &Config,
) -> Result<muster_provisioner::Options, PluginSetupError> {
    plugin_options(config, "provisioner")
}

/// The restart manager of this node. Nothing is read or written before the first restart.
pub(crate) fn open_restarts(config: &Config) -> Result<RestartManager, PluginSetupError> {
    let catalog = catalog_options(config)?;
    let system: Arc<dyn System> = Arc::new(RealSystem::new(config.paths.root.clone()));
    let paths = MachinePaths {
        root: system.root().to_owned(),
        engine: catalog.state_dir,
        puppet: catalog
            .puppet_state
            .unwrap_or_else(|| puppet_state_dirs(system.root())),
    };
    let program = std::env::current_exe().map_err(PluginSetupError::CurrentExe)?;
    Ok(RestartManager::new(
        restart_store(config),
        paths,
        Arc::new(DetachedLauncher(program)),
        system,
    ))
}

/// The store of restart records.
pub(crate) fn restart_store(config: &Config) -> RestartStore {
    RestartStore::new(config.paths.state.join("restart"))
}

/// The agent `puppet`, which also works in the background between requests.
pub(crate) fn build_puppet(
    config: &Config,
    permits: &muster_permits::PermitClient,
) -> Result<PuppetPlugin, PluginSetupError> {
    PuppetPlugin::new(puppet_options(config)?, permits.clone()).map_err(|error| {
        PluginSetupError::Plugin {
            plugin: "puppet",
            source: serde::de::Error::custom(format!("pool: {error}")),
        }
    })
}

/// Run records are stored below the daemon's state and share the engine's ledger and lock.
fn puppet_options(config: &Config) -> Result<muster_puppet::Options, PluginSetupError> {
    let mut options: muster_puppet::Options = plugin_options(config, "puppet")?;
    if options.state_dir.as_os_str().is_empty() {
        options.state_dir = config.paths.state.join("puppet");
    }
    if options.engine_dir.as_os_str().is_empty() {
        options.engine_dir = catalog_options(config)?.state_dir;
    }
    Ok(options)
}

/// The engine's state is below the daemon's, unless configured elsewhere.
fn catalog_options(config: &Config) -> Result<muster_catalog::Options, PluginSetupError> {
    let mut options: muster_catalog::Options = plugin_options(config, "catalog")?;
    if options.state_dir.as_os_str().is_empty() {
        options.state_dir = config.paths.state.join("engine");
    }
    Ok(options)
}

/// The options of a plugin: its section of the configuration, or an empty one.
fn plugin_options<T: DeserializeOwned>(
    config: &Config,
    plugin: &'static str,
) -> Result<T, PluginSetupError> {
    let table = config.plugins.get(plugin).cloned().unwrap_or_default();
    serde_json::from_value(serde_json::Value::Object(table))
        .map_err(|source| PluginSetupError::Plugin { plugin, source })
}
