//! Starts one daemon that runs all nodes (`rpcd virtual`) and prints its progress.

use muster_base::unix_millis_now;
use std::path::Path;
use std::time::Duration;

use muster_wire::identity::Identity;
use tokio::time::Instant;

use super::ready::{self, ReadinessListener};
use super::record::{self, DemoRecord};
use super::up::{READY_TIMEOUT, StartingNode, log_path, not_ready_error};
use super::{DemoError, node, process};
use crate::printer::OutputPrinter;
use muster_organisation::{Organisation, OrganisationError, OrganisationKey};

/// Name of the process and of its directory. No node has this name.
const HOST_NAME: &str = "virtual";
/// Mean time allowed per node: a key, a token, and a TLS connection.
const READY_TIMEOUT_PER_NODE: Duration = Duration::from_millis(10);

/// Starts the daemon and waits until all its nodes are connected.
pub async fn run(
    count: u32,
    daemon: &Path,
    organisation: &Organisation,
    directory: &Path,
    record: &mut DemoRecord,
    printer: &OutputPrinter,
) -> Result<(), DemoError> {
    let name =
        Identity::parse(HOST_NAME).map_err(|error| OrganisationError::Name(error.to_string()))?;
    let host_directory = directory.join(HOST_NAME);
    let config = {
        let lock = organisation.lock()?;
        node::make_virtual_host(organisation, &lock, &host_directory, &name, unix_millis_now())?
    };
    let listener = ReadinessListener::new(directory.join("run/0"))?;
    let (nodes, key) = (count.to_string(), organisation.layout().key_file(OrganisationKey::Node));
    let arguments = [
        "--config".as_ref(),
        config.as_os_str(),
        "virtual".as_ref(),
        "--nodes".as_ref(),
        nodes.as_ref(),
        "--node-key".as_ref(),
        key.as_os_str(),
    ];
    let environment = [(ready::NOTIFY_SOCKET_VARIABLE, listener.path().as_os_str())];
    let log = log_path(directory, &name);
    let (child, process) = process::start_process(daemon, &arguments, &environment, &log)?;
    record.nodes.push(record::NodeProcess {
        name: HOST_NAME.to_owned(),
        virtual_count: Some(count),
        process,
    });
    record.save(directory)?;
    let starting = StartingNode { name, child, listener };
    await_all_ready(starting, count, directory, printer).await
}

async fn await_all_ready(
    mut starting: StartingNode,
    count: u32,
    directory: &Path,
    printer: &OutputPrinter,
) -> Result<(), DemoError> {
    let timeout = READY_TIMEOUT + READY_TIMEOUT_PER_NODE * count;
    let deadline = Instant::now() + timeout;
    let child = &mut starting.child;
    let mut exit_status = None;
    let has_exited = || {
        exit_status = child.try_wait().ok().flatten();
        exit_status.is_some()
    };
    let print_status = |status: &str| printer.print_message(status);
    let listener = &starting.listener;
    if listener.await_ready_with_status(deadline, has_exited, print_status).await {
        return Ok(());
    }
    Err(not_ready_error(&starting, exit_status, timeout, directory))
}
