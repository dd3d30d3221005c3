//! Discovery without requests to the fleet: lists, inventories, `PuppetDB`, programs.
//!
//! The standard input is read only when it is named explicitly: below cron, ssh or a daemon the standard input is arbitrary, and its content must not
//! select target nodes.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use muster_calls::discovery::external::build_request;
use muster_calls::discovery::flat::{self, NodeListError};
use muster_calls::discovery::inventory::FleetInventory;
use muster_calls::{DiscoveryQuery, DiscoverySource};
use muster_wire::identity::Identity;

use crate::error::FleetRequestError;
use crate::external;
use crate::observer::RequestObserver;

/// Returns the matching nodes; `None` if discovery asks the fleet.
pub async fn locate_nodes(
    source: &DiscoverySource,
    query: &DiscoveryQuery,
    observer: &dyn RequestObserver,
) -> Result<Option<BTreeSet<Identity>>, FleetRequestError> {
    // Nodes named exactly need no discovery, as with a broadcast.
    let is_costly =
        matches!(source, DiscoverySource::PuppetDb(_) | DiscoverySource::External { .. });
    if let Some(named) = query.exact_nodes().filter(|_| is_costly) {
        return Ok(Some(named));
    }
    let nodes = match source {
        DiscoverySource::Automatic | DiscoverySource::Directory | DiscoverySource::Broadcast => {
            return Ok(None);
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
    };
    Ok(Some(nodes))
}

fn list_error(path: &Path) -> impl FnOnce(NodeListError) -> FleetRequestError {
    move |source| FleetRequestError::NodeList(path.to_owned(), source)
}
