//! Nodes from wherever they are looked for without asking the fleet: lists, inventories, `PuppetDB`, programs.
//!
//! The standard input is read only when it is named: a caller that runs below cron, ssh or a daemon has a standard input that it
//! never meant, and a request must not aim at whatever comes from there.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use muster_client::discovery::flat::{self, ListError};
use muster_client::discovery::inventory::{Inventory, InventoryError};
use muster_client::discovery::puppetdb::PuppetDbError;
use muster_client::{Source, Wanted};
use muster_wire::identity::Identity;

use super::error::AskError;
use super::external::{self, ExternalError};
use crate::printer::Printer;

/// Why nodes are not known.
#[derive(Debug, thiserror::Error)]
pub enum LocateError {
    /// The list.
    #[error("the list of nodes in {} cannot be used", path.display())]
    List {
        /// The file, `-` for the standard input.
        path: PathBuf,
        /// Where and why.
        #[source]
        source: ListError,
    },
    /// The inventory.
    #[error("the inventory in {} cannot be used", path.display())]
    Inventory {
        /// The file.
        path: PathBuf,
        /// Where and why.
        #[source]
        source: InventoryError,
    },
    /// `PuppetDB`.
    #[error(transparent)]
    PuppetDb(#[from] PuppetDbError),
    /// The program.
    #[error(transparent)]
    External(#[from] ExternalError),
}

/// The nodes that are wanted; `None` if only the fleet itself can tell.
pub async fn locate(
    source: &Source,
    wanted: &Wanted,
    printer: &Printer,
) -> Result<Option<BTreeSet<Identity>>, AskError> {
    // Nodes that are named are taken at their names, as they are by a broadcast: nobody needs to look for them.
    let is_costly = matches!(source, Source::PuppetDb(_) | Source::External { .. });
    if let Some(named) = wanted.named().filter(|_| is_costly) {
        return Ok(Some(named));
    }
    let nodes = match source {
        Source::Broadcast => return Ok(None),
        Source::Flat { file, form } => {
            let nodes = flat::read_file(file, *form).map_err(of_list(file))?;
            flat::narrow(nodes, &wanted.filter)
        }
        Source::Stdin { form } => {
            let nodes = flat::read(io::stdin().lock(), *form).map_err(of_list(Path::new("-")))?;
            flat::narrow(nodes, &wanted.filter)
        }
        Source::Inventory { file } => Inventory::read(file)
            .and_then(|inventory| inventory.find(wanted))
            .map_err(|source| LocateError::Inventory {
                path: file.clone(),
                source,
            })?,
        Source::PuppetDb(server) => server.find(wanted).await.map_err(LocateError::from)?,
        Source::External {
            command,
            timeout,
            options,
        } => {
            let request = muster_client::discovery::external::request(wanted, *timeout, options);
            external::run(command, *timeout, &request, printer).await?
        }
    };
    Ok(Some(nodes))
}

fn of_list(path: &Path) -> impl FnOnce(ListError) -> LocateError {
    move |source| LocateError::List {
        path: path.to_owned(),
        source,
    }
}
