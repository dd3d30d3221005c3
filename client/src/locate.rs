//! Discovery without requests to the fleet: lists, inventories, `PuppetDB`, programs.
//!
//! The standard input is read only when it is named explicitly: below cron, ssh or a daemon the standard input is arbitrary, and its content must not
//! select target nodes.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::time::Instant;

use muster_calls::discovery::external::build_request;
use muster_calls::discovery::flat::{self, NodeListError};
use muster_calls::discovery::inventory::FleetInventory;
use muster_calls::{DiscoveryQuery, DiscoverySource};
use muster_wire::identity::Identity;

use crate::error::FleetRequestError;
use crate::external;
use crate::located::Located;
use crate::observer::{RequestEvent, RequestObserver};
use crate::settings::RpcSettings;
use crate::target::TargetSelection;

/// The target nodes, if they are found without a request to the fleet; `None` if the discovery method asks the fleet.
pub async fn locate_offline(
    target: &TargetSelection,
    settings: &RpcSettings,
    observer: &dyn RequestObserver,
) -> Result<Option<Located>, FleetRequestError> {
    let source = target.discovery_source(Some(settings))?;
    let method = source.method();
    if method.asks_fleet() {
        return Ok(None);
    }
    let start = Instant::now();
    let mut located = Located::new(method, BTreeSet::new());
    observer.observe(RequestEvent::DiscoveryStarted(method));
    let query = target.discovery_query(&source, Some(&settings.collective));
    located.nodes = read_source(&source, &query, observer).await?;
    observer.observe(RequestEvent::DiscoveryEnded(method, located.nodes.len()));
    Ok(Some(Located { filter: target.node_filter(&source), took: start.elapsed(), ..located }))
}

/// The matching nodes of a source that is not the fleet.
async fn read_source(
    source: &DiscoverySource,
    query: &DiscoveryQuery,
    observer: &dyn RequestObserver,
) -> Result<BTreeSet<Identity>, FleetRequestError> {
    // Nodes named exactly need no discovery, as with a broadcast.
    let is_costly =
        matches!(source, DiscoverySource::PuppetDb(_) | DiscoverySource::External { .. });
    if let Some(named) = query.exact_nodes().filter(|_| is_costly) {
        return Ok(named);
    }
    Ok(match source {
        DiscoverySource::Automatic | DiscoverySource::Directory | DiscoverySource::Broadcast => {
            BTreeSet::new()
        }
        DiscoverySource::Flat { file, form } => {
            let nodes = flat::read_list_file(file, *form).map_err(list_error(file))?;
            flat::filter_identities(nodes, &query.filter)
        }
        DiscoverySource::Stdin { form } => {
            let nodes =
                flat::read_list(io::stdin().lock(), *form).map_err(list_error(Path::new("-")))?;
            flat::filter_identities(nodes, &query.filter)
        }
        DiscoverySource::Inventory { file } => FleetInventory::read(file)
            .and_then(|inventory| inventory.find_nodes(query))
            .map_err(|source| FleetRequestError::Inventory(file.clone(), source))?,
        DiscoverySource::PuppetDb(server) => server.find_nodes(query).await?,
        DiscoverySource::External { command, timeout, options } => {
            let request = build_request(query, *timeout, options);
            external::run_discovery_program(command, *timeout, &request, observer).await?
        }
    })
}

fn list_error(path: &Path) -> impl FnOnce(NodeListError) -> FleetRequestError {
    move |source| FleetRequestError::NodeList(path.to_owned(), source)
}
