//! Starts one daemon that runs all nodes (`rpcd virtual`) and prints its progress.

use std::time::Duration;

use muster_base::unix_millis_now;
use muster_organisation::{Organisation, OrganisationKey};
use muster_wire::identity::Identity;
use tokio::time::Instant;

use crate::commands::demo::error::{DemoError, name_error};
use crate::commands::demo::node;
use crate::commands::demo::up::{DemoStart, READY_TIMEOUT, await_node};

/// Name of the process and of its directory. No node has this name.
const HOST_NAME: &str = "virtual";
/// Mean time allowed per node: a key, a token, and a TLS connection.
const READY_TIMEOUT_PER_NODE: Duration = Duration::from_millis(10);

/// Starts the daemon and waits until all its nodes are connected.
pub async fn run(
    count: u32,
    organisation: &Organisation,
    demo: &mut DemoStart<'_>,
) -> Result<(), DemoError> {
    let name = Identity::parse(HOST_NAME).map_err(name_error)?;
    let directory = demo.directory.join(HOST_NAME);
    let config = {
        let lock = organisation.lock()?;
        node::make_virtual_host(organisation, &lock, &directory, &name, unix_millis_now())?
    };
    let (nodes, key) = (count.to_string(), organisation.layout().key_file(OrganisationKey::Node));
    let arguments = [
        "virtual".as_ref(),
        "--nodes".as_ref(),
        nodes.as_ref(),
        "--node-key".as_ref(),
        key.as_os_str(),
    ];
    let mut starting = demo.start_daemon(name, &config, Some(count), &arguments)?;
    let timeout = READY_TIMEOUT + READY_TIMEOUT_PER_NODE * count;
    let limits = (Instant::now() + timeout, timeout);
    let print_status = |status: &str| demo.printer.print_message(status);
    await_node(&mut starting, demo.directory, limits, print_status).await
}
