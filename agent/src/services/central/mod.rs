//! Central services on this host besides the node. Each has its own credentials and connection, because a service may send requests, and a node may
//! not.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use muster_api::NodePlugin;
use muster_api::system::System;
use muster_bus::{Bus, BusError};
use muster_calls::{Client, DiscoveryWindow};
use muster_directory::{
    BarrierService, DirectoryContext, DirectoryHandle, DirectoryHttp, DirectoryHttpError,
    DirectoryOptions, DirectoryPlugin, DirectoryService,
};
use muster_host::AgentRegistry;
use muster_node::config::Config;
use muster_node::core::DaemonCore;
use muster_node::pipeline::daemon::Daemon;
use muster_node::trust::credentials::{self, CredentialsError};
use muster_node::trust::own_tokens;
use muster_provisioner::plan::ProvisioningPlan;
use muster_provisioner::{
    BucketEnrolmentStore, EnrolmentOptions, EnrolmentService, ProvisionerHandle, ProvisionerPlugin,
    ProvisionerService, ProvisionerServiceError,
};
use muster_scheduler::{
    SchedulerContext, SchedulerHandle, SchedulerOptions, SchedulerPlugin, SchedulerService,
};
use muster_wire::enrolment::{
    EnrolmentSettings, NodeEnroller, NodeEnrollerError, NodeEnrollerParts,
};
use muster_wire::identity::{NameError, SubjectName};
use muster_wire::sign::Signer;
use muster_wire::token::{AccountTrust, ServiceRight};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::services::agents::{self, PluginSetupError};
use crate::services::metrics::directory_metrics::RunningDirectory;
use crate::services::upkeep;

/// How long services may take to stop.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a configured service cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    #[error(transparent)]
    Plugin(#[from] PluginSetupError),
    #[error("the broker address is not valid")]
    Broker(#[from] BusError),
    #[error("cannot start a service")]
    Provisioner(#[from] ProvisionerServiceError),
    #[error("cannot serve the directory over HTTP")]
    DirectoryHttp(#[from] DirectoryHttpError),
    #[error("the agent of a service has no valid name")]
    Name(#[source] NameError),
    #[error("cannot start the enrolment service")]
    Enrol(#[from] NodeEnrollerError),
}

#[derive(Debug, Default)]
pub(crate) struct CentralServices(Vec<JoinHandle<()>>);

impl CentralServices {
    /// Waits until they have stopped, after their stop was requested.
    pub(crate) async fn wait_stopped(self) {
        for service in self.0 {
            if tokio::time::timeout(SHUTDOWN_TIMEOUT, service).await.is_err() {
                tracing::warn!("a service did not stop in time");
            }
        }
    }
}

fn provisioner_options(config: &Config) -> Result<muster_provisioner::Options, PluginSetupError> {
    Ok(agents::parse_options::<ProvisionerPlugin>(&config.plugins)?)
}

fn directory_options(config: &Config) -> Result<DirectoryOptions, PluginSetupError> {
    Ok(agents::parse_options::<DirectoryPlugin>(&config.plugins)?)
}

fn scheduler_options(config: &Config) -> Result<SchedulerOptions, PluginSetupError> {
    Ok(agents::parse_options::<SchedulerPlugin>(&config.plugins)?)
}

fn scheduler_registry(
    handle: &SchedulerHandle,
    config: &Config,
) -> Result<AgentRegistry, PluginSetupError> {
    agents::build_registry(config, vec![muster_scheduler::build_agent(handle)?])
}

fn directory_registry(
    handle: &DirectoryHandle,
    config: &Config,
) -> Result<AgentRegistry, PluginSetupError> {
    agents::build_registry(config, vec![muster_directory::build_agent(handle)?])
}

/// Loads everything that is read-only, to check that the configured services can be started.
pub(crate) fn check_services(config: &Config) -> Result<(), ServiceError> {
    let directory = directory_options(config)?;
    if directory.enabled {
        credentials::read_service_signer(&directory.credentials, ServiceRight::Directory)?;
        DirectoryHttp::load(&directory.http)?;
    }
    let scheduler = scheduler_options(config)?;
    if scheduler.enabled {
        credentials::read_service_signer(&scheduler.credentials, ServiceRight::Schedule)?;
    }
    let options = provisioner_options(config)?;
    if options.enabled {
        ProvisioningPlan::from_options(&options).map_err(ProvisionerServiceError::from)?;
        credentials::read_service_signer(&options.credentials, ServiceRight::Provision)?;
        if let Some(enrolment_options) = &options.newcomers {
            credentials::read_signer(&enrolment_options.credentials)?;
            credentials::read_key(&enrolment_options.node_key)?;
        }
    }
    Ok(())
}

pub(crate) async fn start_services(
    config: &Config,
    handle: &ProvisionerHandle,
    core: &Arc<DaemonCore>,
    metrics: &OnceLock<RunningDirectory>,
    system: Arc<dyn System>,
    stop: CancellationToken,
) -> Result<CentralServices, ServiceError> {
    let (directory, mut services) = start_directory(config, core, metrics, &stop).await?;
    services.extend(start_scheduler(config, core, directory, &stop).await?);
    let trust = AccountTrust::clone(&core.trust.account.get());
    services.extend(start_provisioner(config, handle, trust, system, stop).await?);
    Ok(CentralServices(services))
}

/// Starts an instance of the directory: the index, and the agent that answers from it, both with the service's own connection. Returns the index, which
/// other services on this host share.
async fn start_directory(
    config: &Config,
    core: &Arc<DaemonCore>,
    metrics: &OnceLock<RunningDirectory>,
    stop: &CancellationToken,
) -> Result<(Option<DirectoryHandle>, Vec<JoinHandle<()>>), ServiceError> {
    let options = directory_options(config)?;
    if !options.enabled {
        return Ok((None, Vec::new()));
    }
    let http = DirectoryHttp::load(&options.http)?;
    let signer = credentials::read_service_signer(&options.credentials, ServiceRight::Directory)?;
    let bus = credentials::connect_options(config, &signer)?.connect().await?;
    let handle = DirectoryHandle::with_limits(options.grace(), options.memory_mib);
    let http_metrics = http.metrics();
    let serving = tokio::spawn(http.run_until_stopped(handle.clone(), stop.clone()));
    let service_core =
        Arc::new(core.for_service(signer.clone(), directory_registry(&handle, config)?));
    let _ = metrics.set(RunningDirectory {
        handle: handle.clone(),
        requests: Arc::clone(&service_core.request_metrics),
        http: http_metrics,
    });
    let barriers = BarrierService::new(handle.clone(), client_factory(core, &bus, &signer));
    let following = follow_nodes(core, &handle, &bus, signer, stop);
    let answering = answer_requests::<DirectoryPlugin>(config, service_core, bus, stop)?;
    let mut tasks = vec![following, answering, serving];
    if options.conditions {
        tasks.push(tokio::spawn(barriers.run_until_stopped(stop.clone())));
    }
    Ok((Some(handle), tasks))
}

/// Keeps an index of nodes current.
fn follow_nodes(
    core: &Arc<DaemonCore>,
    handle: &DirectoryHandle,
    bus: &Bus,
    signer: Signer,
    stop: &CancellationToken,
) -> JoinHandle<()> {
    let trust = core.trust.account.share();
    let context = DirectoryContext {
        trust: Box::new(move || trust.get()),
        clock: muster_api::base::unix_millis_now,
    };
    let service = DirectoryService::new(handle.clone(), bus.clone(), signer, context);
    tokio::spawn(service.run_until_stopped(stop.clone()))
}

fn client_factory(
    core: &DaemonCore,
    bus: &Bus,
    signer: &Signer,
) -> Box<dyn Fn(SubjectName) -> Client + Send + Sync> {
    let parts = (bus.clone(), signer.clone(), AccountTrust::clone(&core.trust.account.get()));
    Box::new(move |collective| {
        let (bus, signer, trust) = parts.clone();
        Client::new(bus, signer, trust, collective, DiscoveryWindow::default())
    })
}

fn answer_requests<P: NodePlugin>(
    config: &Config,
    core: Arc<DaemonCore>,
    bus: Bus,
    stop: &CancellationToken,
) -> Result<JoinHandle<()>, ServiceError> {
    let agent = SubjectName::parse(P::NAME).map_err(ServiceError::Name)?;
    let (stop, drain, config) = (stop.clone(), config.drain.timeout, config.clone());
    Ok(tokio::spawn(async move {
        bus.wait_connected().await;
        match Daemon::start_service(core, bus, &agent).await {
            Ok(mut daemon) => {
                if let Some(changes) = daemon.token_changes() {
                    tokio::spawn(upkeep::keep_account_tokens(changes, config));
                }
                daemon.run(stop, drain).await;
            }
            Err(error) => {
                tracing::error!(%error, %agent, "the service cannot subscribe to requests");
            }
        }
    }))
}

/// Starts an instance of the scheduler. Without a directory on this host it has an index of its own.
async fn start_scheduler(
    config: &Config,
    core: &Arc<DaemonCore>,
    directory: Option<DirectoryHandle>,
    stop: &CancellationToken,
) -> Result<Vec<JoinHandle<()>>, ServiceError> {
    let options = scheduler_options(config)?;
    if !options.enabled {
        return Ok(Vec::new());
    }
    let signer = credentials::read_service_signer(&options.credentials, ServiceRight::Schedule)?;
    let bus = credentials::connect_options(config, &signer)?.connect().await?;
    let mut tasks = Vec::new();
    let directory = directory.unwrap_or_else(|| {
        let handle = DirectoryHandle::default();
        tasks.push(follow_nodes(core, &handle, &bus, signer.clone(), stop));
        handle
    });
    let trust = core.trust.account.share();
    let handle = SchedulerHandle::new(SchedulerContext {
        collectives: config.collectives.clone(),
        directory,
        trust: Some(Box::new(move || trust.get())),
        clock: muster_api::base::unix_millis_now,
    });
    let service_core =
        Arc::new(core.for_service(signer.clone(), scheduler_registry(&handle, config)?));
    let create_client = client_factory(core, &bus, &signer);
    let clients = config.collectives.iter();
    let clients = clients.map(|name| (name.clone(), create_client(name.clone()))).collect();
    let host = config.identity.clone();
    let service = SchedulerService::new(host, handle, (bus.clone(), signer), clients, &options);
    tasks.push(tokio::spawn(service.run_until_stopped(stop.clone())));
    // The service closes the connection, after a leader has given up its lease.
    let bus = bus.lend_connection();
    tasks.push(answer_requests::<SchedulerPlugin>(config, service_core, bus, stop)?);
    Ok(tasks)
}

/// Starts the provisioner if it is enabled.
async fn start_provisioner(
    config: &Config,
    handle: &ProvisionerHandle,
    trust: AccountTrust,
    system: Arc<dyn System>,
    stop: CancellationToken,
) -> Result<Vec<JoinHandle<()>>, ServiceError> {
    let options = provisioner_options(config)?;
    if !options.enabled {
        return Ok(Vec::new());
    }
    let signer = credentials::read_service_signer(&options.credentials, ServiceRight::Provision)?;
    let bus = credentials::connect_options(config, &signer)?.connect().await?;
    handle.connect(bus.clone());
    let Some(collective) = config.collectives.first().cloned() else {
        return Ok(Vec::new());
    };
    let client_for = |collective: SubjectName| {
        let (signer, trust) = (signer.clone(), trust.clone());
        Client::new(bus.clone(), signer, trust, collective, DiscoveryWindow::default())
    };
    let client = client_for(collective);
    let host = config.identity.clone();
    let enrolment = match &options.newcomers {
        Some(enrolment_options) => {
            let clients = config.collectives.iter().cloned().map(client_for).collect();
            Some(enrolment_service(config, enrolment_options, &bus, clients, trust.clone()).await?)
        }
        None => None,
    };
    let mut service = ProvisionerService::new(host, bus, client, options, system)?;
    if let Some(enrolment) = enrolment {
        service = service.with_enrolment(enrolment);
    }
    Ok(vec![tokio::spawn(service.run_until_stopped(stop))])
}

/// The enrolment service, in the enrolment account.
async fn enrolment_service(
    config: &Config,
    options: &EnrolmentOptions,
    fleet_bus: &Bus,
    clients: Vec<Client>,
    fleet: AccountTrust,
) -> Result<EnrolmentService, ServiceError> {
    let service = credentials::read_signer(&options.credentials)?;
    let bus = credentials::connect_options(config, &service)?.connect().await?;
    let issued_at = service.claims().iat.saturating_mul(1000);
    let enroller = NodeEnroller::new(NodeEnrollerParts {
        newcomers: own_tokens::read_trust(config, &options.account)?,
        fleet,
        service,
        // Its holder can create any node.
        node_role: credentials::read_key(&options.node_key)?,
        settings: EnrolmentSettings {
            collectives: config.collectives.clone(),
            urls: config.broker.urls.clone(),
            lifetime: options.token_lifetime(),
            provisioning: true,
        },
        store: BucketEnrolmentStore::new(fleet_bus, clients, issued_at),
    })?;
    Ok(EnrolmentService::new(bus, enroller))
}
