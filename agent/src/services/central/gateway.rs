//! An instance of the gateway for agents of Puppet.

use muster_gateway::{GatewayOptions, GatewayService};
use muster_node::trust::credentials;
use muster_wire::token::ServiceRight;

use super::directory::trust_source;
use super::service::{CentralService, ServiceContext, ServiceError, ServiceResult, ServiceTasks};

pub(super) struct CentralGateway;

impl CentralService for CentralGateway {
    const NAME: &'static str = "gateway";
    type Options = GatewayOptions;

    fn check(options: &GatewayOptions) -> ServiceResult<()> {
        credentials::read_service_signer(&options.credentials, ServiceRight::Gateway)?;
        load_gateway(options).map(drop)
    }

    async fn start(
        options: GatewayOptions,
        context: ServiceContext<'_>,
    ) -> ServiceResult<ServiceTasks> {
        let gateway = load_gateway(&options)?;
        let connection = context.connect(&options.credentials, ServiceRight::Gateway).await?;
        let (source, stop) = (trust_source(context), context.stop.clone());
        Ok(vec![tokio::spawn(gateway.run_until_stopped(connection.bus, source, stop))])
    }
}

fn load_gateway(options: &GatewayOptions) -> ServiceResult<GatewayService> {
    let failure = "cannot serve Puppet agents";
    GatewayService::load(options).map_err(ServiceError::failed(failure))
}
