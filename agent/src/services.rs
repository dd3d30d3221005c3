//! Central services on this host besides the node. Each has its own credentials and connection, because a service may send requests, and a node may
//! not.

use std::sync::Arc;
use std::time::Duration;

use muster_api::system::System;
use muster_bus::Bus;
use muster_client::{Client, DiscoveryWindow};
use muster_enrol::{EnrolmentSettings, NodeEnroller, NodeEnrollerParts};
use muster_provisioner::plan::ProvisioningPlan;
use muster_provisioner::{
    BucketEnrolmentStore, EnrolmentOptions, EnrolmentService, ProvisionerHandle,
    ProvisionerService, ProvisionerServiceError,
};
use muster_wire::identity::SubjectName;
use muster_wire::token::AccountTrust;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::agents;
use crate::assemble::{self, AssembleError};
use crate::config::Config;
use crate::credentials;

/// How long services may take to stop.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// The running services.
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

/// Loads everything that is read-only, to check that the configured services can be started.
pub(crate) fn check_services(config: &Config) -> Result<(), AssembleError> {
    let options = agents::provisioner_options(config)?;
    if options.enabled {
        ProvisioningPlan::from_options(&options).map_err(ProvisionerServiceError::from)?;
        credentials::read_signer(&options.credentials)?;
        if let Some(enrolment_options) = &options.newcomers {
            credentials::read_signer(&enrolment_options.credentials)?;
            credentials::read_key(&enrolment_options.node_key)?;
        }
    }
    Ok(())
}

/// Starts the configured services.
pub(crate) async fn start_services(
    config: &Config,
    handle: &ProvisionerHandle,
    trust: AccountTrust,
    system: Arc<dyn System>,
    stop: CancellationToken,
) -> Result<CentralServices, AssembleError> {
    let options = agents::provisioner_options(config)?;
    if !options.enabled {
        return Ok(CentralServices::default());
    }
    let signer = credentials::read_signer(&options.credentials)?;
    let bus = credentials::connect_options(config, &signer)?.connect().await?;
    handle.connect(bus.clone());
    let Some(collective) = config.collectives.first().cloned() else {
        return Ok(CentralServices::default());
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
    Ok(CentralServices(vec![tokio::spawn(service.run_until_stopped(stop))]))
}

/// The enrolment service, in the enrolment account.
async fn enrolment_service(
    config: &Config,
    options: &EnrolmentOptions,
    fleet_bus: &Bus,
    clients: Vec<Client>,
    fleet: AccountTrust,
) -> Result<EnrolmentService, AssembleError> {
    let service = credentials::read_signer(&options.credentials)?;
    let bus = credentials::connect_options(config, &service)?.connect().await?;
    let issued_at = service.claims().iat.saturating_mul(1000);
    let enroller = NodeEnroller::new(NodeEnrollerParts {
        newcomers: assemble::read_trust(config, &options.account)?,
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
