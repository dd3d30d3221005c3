//! Central services that this host offers besides being a node. Each has credentials and a connection of its own, because a service may
//! ask, and a node may not.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use muster_api::system::System;
use muster_api::wire::token::Trust;
use muster_bus::{Options as Connection, Server};
use muster_client::{Client, Window};
use muster_provisioner::plan::Plan;
use muster_provisioner::{Desk, Service};
use muster_wire::sign::Signer;
use muster_wire::subject;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::agents;
use crate::assemble::{self, AssembleError};
use crate::config::Config;

/// How long services may take to leave.
const PATIENCE: Duration = Duration::from_secs(5);

/// The services that were started.
#[derive(Debug, Default)]
pub(crate) struct Services(Vec<JoinHandle<()>>);

impl Services {
    /// Waits for them to leave, after their stop was asked for.
    pub(crate) async fn left(self) {
        for service in self.0 {
            if tokio::time::timeout(PATIENCE, service).await.is_err() {
                tracing::warn!("a service did not leave in time");
            }
        }
    }
}

/// Everything that is only read, to prove that the configured services can be started.
pub(crate) fn inspect(config: &Config) -> Result<(), AssembleError> {
    let options = agents::provisioner_options(config)?;
    if options.enabled {
        Plan::read(&options).map_err(|error| AssembleError::Service(error.into()))?;
        signer(&options.credentials)?;
    }
    Ok(())
}

/// Starts what the configuration enables.
pub(crate) async fn start(
    config: &Config,
    desk: &Desk,
    trust: Trust,
    system: Arc<dyn System>,
    stop: CancellationToken,
) -> Result<Services, AssembleError> {
    let options = agents::provisioner_options(config)?;
    if !options.enabled {
        return Ok(Services::default());
    }
    let signer = signer(&options.credentials)?;
    let bus = connection(config, &signer)?.connect().await?;
    desk.connect(bus.clone());
    let Some(collective) = config.collectives.first().cloned() else {
        return Ok(Services::default());
    };
    let client = Client::new(bus.clone(), signer, trust, collective, Window::default());
    let host = config.identity.clone();
    let service = Service::new(host, bus, client, options, system)?;
    Ok(Services(vec![tokio::spawn(service.serve(stop))]))
}

fn signer(path: &Path) -> Result<Signer, AssembleError> {
    assemble::signer_of(path)
}

/// How a service connects: to the same broker as the node, under its own name.
fn connection(config: &Config, signer: &Signer) -> Result<Connection, AssembleError> {
    let parse = |url: &String| Server::parse(url, config.broker.plaintext_on_loopback);
    let servers = config.broker.urls.iter().map(parse);
    let servers = servers.collect::<Result<Vec<_>, _>>()?;
    let mut options = Connection::daemon(signer.identity().as_str(), servers);
    options.authority.clone_from(&config.broker.ca);
    options.secret = Some(assemble::secret(signer));
    options.inbox_prefix = Some(subject::inbox_prefix(&signer.public().to_string()));
    Ok(options)
}
