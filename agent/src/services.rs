//! Central services that this host offers besides being a node. Each has credentials and a connection of its own, because a service may
//! ask, and a node may not.

use std::sync::Arc;
use std::time::Duration;

use muster_api::system::System;
use muster_bus::{Bus, Options as Connection, Secret, Server};
use muster_client::{Client, Window};
use muster_provisioner::plan::Plan;
use muster_provisioner::{Desk, KeptRoll, Newcomers, NewcomersOptions, Service};
use muster_wire::enrol::{Enroller, Offer, Parts};
use muster_wire::identity::Name;
use muster_wire::sign::Signer;
use muster_wire::subject;
use muster_wire::token::{KeyPair, Trust};
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
        assemble::signer_of(&options.credentials)?;
        if let Some(door) = &options.newcomers {
            assemble::signer_of(&door.credentials)?;
            node_key(door)?;
        }
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
    let signer = assemble::signer_of(&options.credentials)?;
    let bus = connection(config, &signer)?.connect().await?;
    desk.connect(bus.clone());
    let Some(collective) = config.collectives.first().cloned() else {
        return Ok(Services::default());
    };
    let client_in = |collective: Name| {
        let (signer, trust) = (signer.clone(), trust.clone());
        Client::new(bus.clone(), signer, trust, collective, Window::default())
    };
    let client = client_in(collective);
    let host = config.identity.clone();
    let door = match &options.newcomers {
        Some(door) => {
            let clients = config.collectives.iter().cloned().map(client_in).collect();
            Some(newcomers(config, door, &bus, clients, trust.clone()).await?)
        }
        None => None,
    };
    let mut service = Service::new(host, bus, client, options, system)?;
    if let Some(door) = door {
        service = service.with_newcomers(door);
    }
    Ok(Services(vec![tokio::spawn(service.serve(stop))]))
}

/// The door for newcomers, in their own account.
async fn newcomers(
    config: &Config,
    door: &NewcomersOptions,
    fleet_bus: &Bus,
    clients: Vec<Client>,
    fleet: Trust,
) -> Result<Newcomers, AssembleError> {
    let service = assemble::signer_of(&door.credentials)?;
    let bus = connection(config, &service)?.connect().await?;
    let issued_at = service.claims().iat.saturating_mul(1000);
    let enroller = Enroller::new(Parts {
        newcomers: assemble::trust_in(config, &door.account)?,
        fleet,
        service,
        node_role: node_key(door)?,
        offer: Offer {
            collectives: config.collectives.clone(),
            urls: config.broker.urls.clone(),
            lifetime: door.token_lifetime(),
            provisioning: true,
        },
        roll: KeptRoll::new(fleet_bus, clients, issued_at),
    })
    .map_err(AssembleError::Enrol)?;
    Ok(Newcomers::new(bus, enroller))
}

/// The key that signs nodes: whoever has it can make any node.
fn node_key(door: &NewcomersOptions) -> Result<KeyPair, AssembleError> {
    assemble::key_of(&door.node_key)
}

/// How a service connects: to the same broker as the node, under its own name.
fn connection(config: &Config, signer: &Signer) -> Result<Connection, AssembleError> {
    let parse = |url: &String| Server::parse(url, config.broker.plaintext_on_loopback);
    let servers = config.broker.urls.iter().map(parse);
    let servers = servers.collect::<Result<Vec<_>, _>>()?;
    let mut options = Connection::daemon(signer.identity().as_str(), servers);
    options.authority.clone_from(&config.broker.ca);
    options.secret = Some(Secret::of_signer(signer));
    options.inbox_prefix = Some(subject::inbox_prefix(&signer.public().to_string()));
    Ok(options)
}
