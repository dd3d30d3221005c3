//! What a central service implements, and what it uses of the daemon.

use std::error::Error;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use muster_api::system::System;
use muster_api::{Agent, AgentError, PluginError};
use muster_bus::{Bus, BusError};
use muster_calls::{Client, DiscoveryWindow};
use muster_host::{AgentRegistry, RegistryError};
use muster_node::config::Config;
use muster_node::core::DaemonCore;
use muster_node::core::request_metrics::RequestMetrics;
use muster_node::pipeline::daemon::Daemon;
use muster_node::trust::credentials::{self, CredentialsError};
use muster_provisioner::ProvisionerHandle;
use muster_puppetdb::sink::CatalogSource;
use muster_sinks::ProvisionQueue;
use muster_wire::identity::SubjectName;
use muster_wire::sign::Signer;
use muster_wire::token::{AccountTrust, ServiceRight};
use serde::de::DeserializeOwned;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::services::metrics::directory_metrics::RunningDirectory;
use crate::services::metrics::history_metrics::RunningHistory;
use crate::services::metrics::sink_metrics::RunningSinks;
use crate::services::upkeep;

/// A service that is off unless its section of the configuration has `enabled = true`.
pub(super) trait CentralService {
    /// The name of its section, `[plugins.NAME]`.
    const NAME: &'static str;
    /// Reject unknown keys with `#[serde(deny_unknown_fields)]`; `enabled` is one of the keys.
    type Options: DeserializeOwned;

    /// Reads the files that [`Self::start`] reads. Writes nothing and connects to nothing: another daemon may be running.
    fn check(options: &Self::Options) -> ServiceResult<()>;

    /// Starts tasks that end when the daemon stops. Does not wait for the broker.
    async fn start(
        options: Self::Options,
        context: ServiceContext<'_>,
    ) -> ServiceResult<ServiceTasks>;
}

pub(crate) type ServiceTasks = Vec<JoinHandle<()>>;
pub(crate) type ServiceResult<T> = Result<T, ServiceError>;

/// Why a configured service cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    #[error(transparent)]
    Options(#[from] PluginError),
    #[error("cannot load an agent")]
    Agent(#[from] AgentError),
    #[error("cannot register the agents")]
    Registry(#[from] RegistryError),
    #[error("the broker address is not valid")]
    Broker(#[from] BusError),
    #[error("{failure}")]
    Failed { failure: &'static str, source: Box<dyn Error + Send + Sync> },
}

impl ServiceError {
    /// An error of one service, for `map_err`. The text says what failed.
    pub(super) fn failed<E: Error + Send + Sync + 'static>(
        failure: &'static str,
    ) -> impl Fn(E) -> Self {
        move |source| Self::Failed { failure, source: Box::new(source) }
    }
}

/// What a service uses of the daemon.
#[derive(Clone, Copy)]
pub(crate) struct ServiceContext<'a> {
    pub(crate) config: &'a Config,
    pub(crate) core: &'a Arc<DaemonCore>,
    pub(crate) system: &'a Arc<dyn System>,
    pub(crate) stop: &'a CancellationToken,
    /// Set when the directory starts, for the metrics and for services that use its index.
    pub(crate) directory: &'a OnceLock<RunningDirectory>,
    /// Set when the compiler starts, for services that read released catalogs.
    pub(crate) catalogs: &'a OnceLock<CatalogSource>,
    /// Set when the history starts, for the metrics and for services that read its index.
    pub(crate) history: &'a OnceLock<RunningHistory>,
    /// Set when sinks start, for the metrics.
    pub(crate) sinks: &'a RunningSinks,
    /// Set when the sinks start: where the provisioner leaves its events, with the name of the sink.
    pub(crate) provision_queues: &'a OnceLock<Vec<(String, ProvisionQueue)>>,
    /// Shared with the agent `provisioner` of the node.
    pub(crate) provisioner: &'a ProvisionerHandle,
}

impl ServiceContext<'_> {
    /// Connects with the service's credentials, which must have this right. Does not wait for the broker.
    pub(super) async fn connect(
        &self,
        credentials: &Path,
        right: ServiceRight,
    ) -> ServiceResult<ServiceConnection> {
        let signer = credentials::read_service_signer(credentials, right)?;
        let bus = credentials::connect_options(self.config, &signer)?.connect().await?;
        let trust = AccountTrust::clone(&self.core.trust.account.get());
        Ok(ServiceConnection { bus, signer, trust })
    }

    /// Adds a task that answers the requests to an agent. Returns their counts.
    pub(super) fn answer_requests(
        &self,
        agent: Agent,
        connection: ServiceConnection,
        tasks: &mut ServiceTasks,
    ) -> ServiceResult<Arc<RequestMetrics>> {
        let name = SubjectName::parse(agent.name())
            .map_err(ServiceError::failed("the agent of a service has no valid name"))?;
        let mut registry = AgentRegistry::new();
        registry.add(agent, self.config.limits.agent_limits(name.as_str()))?;
        let core = Arc::new(self.core.for_service(connection.signer, registry));
        let requests = Arc::clone(&core.request_metrics);
        let (bus, stop, config) = (connection.bus, self.stop.clone(), self.config.clone());
        tasks.push(tokio::spawn(async move {
            bus.wait_connected().await;
            match Daemon::start_service(core, bus, &name).await {
                Ok(mut daemon) => {
                    let drain = config.drain.timeout;
                    if let Some(changes) = daemon.token_changes() {
                        tokio::spawn(upkeep::keep_account_tokens(changes, config));
                    }
                    daemon.run(stop, drain).await;
                }
                Err(error) => {
                    tracing::error!(%error, agent = %name, "the service cannot subscribe to requests");
                }
            }
        }));
        Ok(requests)
    }
}

/// A service's own connection, with its key and the account that it trusts.
#[derive(Clone)]
pub(super) struct ServiceConnection {
    pub(super) bus: Bus,
    pub(super) signer: Signer,
    pub(super) trust: AccountTrust,
}

impl ServiceConnection {
    /// Sends requests to the nodes of a collective, signed by the service.
    pub(super) fn client(&self, collective: SubjectName) -> Client {
        let Self { bus, signer, trust } = self.clone();
        Client::new(bus, signer, trust, collective, DiscoveryWindow::default())
    }
}
