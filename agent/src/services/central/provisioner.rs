//! The provisioner, and the enrolment of machines that have only a bootstrap token.

use std::sync::Arc;

use muster_node::config::Config;
use muster_node::trust::{credentials, own_tokens};
use muster_provisioner::plan::ProvisioningPlan;
use muster_provisioner::{
    BucketEnrolmentStore, EnrolmentOptions, EnrolmentService, Options, ProvisionerService,
    ProvisionerServiceError,
};
use muster_wire::enrolment::{EnrolmentSettings, NodeEnroller, NodeEnrollerParts};
use muster_wire::token::ServiceRight;

use super::service::{
    CentralService, ServiceConnection, ServiceContext, ServiceError, ServiceResult, ServiceTasks,
};

const START_FAILURE: &str = "cannot start a service";

pub(super) struct CentralProvisioner;

impl CentralService for CentralProvisioner {
    const NAME: &'static str = "provisioner";
    type Options = Options;

    fn check(options: &Options) -> ServiceResult<()> {
        ProvisioningPlan::from_options(options)
            .map_err(ProvisionerServiceError::from)
            .map_err(ServiceError::failed(START_FAILURE))?;
        credentials::read_service_signer(&options.credentials, ServiceRight::Provision)?;
        if let Some(enrolment) = &options.newcomers {
            credentials::read_signer(&enrolment.credentials)?;
            credentials::read_key(&enrolment.node_key)?;
        }
        Ok(())
    }

    async fn start(options: Options, context: ServiceContext<'_>) -> ServiceResult<ServiceTasks> {
        let connection = context.connect(&options.credentials, ServiceRight::Provision).await?;
        context.provisioner.connect(connection.bus.clone());
        let (config, system) = (context.config, Arc::clone(context.system));
        let Some(collective) = config.collectives.first().cloned() else {
            return Ok(ServiceTasks::new());
        };
        let client = connection.client(collective);
        let enrolment = enrolment_service(config, options.newcomers.as_ref(), &connection).await?;
        let host = config.identity.clone();
        let options =
            options.with_sinks(context.provision_queues.get().cloned().unwrap_or_default());
        let service = ProvisionerService::new(host, connection.bus, client, options, system)
            .map_err(ServiceError::failed(START_FAILURE))?
            .with_enrolment(enrolment);
        Ok(vec![tokio::spawn(service.run_until_stopped(context.stop.clone()))])
    }
}

/// The enrolment service, in the enrolment account; `None` without options.
async fn enrolment_service(
    config: &Config,
    options: Option<&EnrolmentOptions>,
    fleet: &ServiceConnection,
) -> ServiceResult<Option<EnrolmentService>> {
    let Some(options) = options else { return Ok(None) };
    let service = credentials::read_signer(&options.credentials)?;
    let bus = credentials::connect_options(config, &service)?.connect().await?;
    let issued_at = service.claims().iat.saturating_mul(1000);
    let clients = config.collectives.iter().map(|name| fleet.client(name.clone())).collect();
    let enroller = NodeEnroller::new(NodeEnrollerParts {
        newcomers: own_tokens::read_trust(config, &options.account)?,
        fleet: fleet.trust.clone(),
        service,
        // Its holder can create any node.
        node_role: credentials::read_key(&options.node_key)?,
        settings: EnrolmentSettings {
            collectives: config.collectives.clone(),
            urls: config.broker.urls.clone(),
            lifetime: options.token_lifetime(),
            provisioning: true,
        },
        store: BucketEnrolmentStore::new(&fleet.bus, clients, issued_at),
    })
    .map_err(ServiceError::failed("cannot start the enrolment service"))?;
    Ok(Some(EnrolmentService::new(bus, enroller)))
}
