//! Starts one daemon that runs all nodes (`rpcd virtual`) and prints its progress.

use muster_base::unix_millis_now;
use std::path::Path;
use std::time::Duration;

use muster_wire::identity::Identity;
use tokio::time::Instant;

use super::ready::{self, ReadinessListener};
use super::record::{self, DemoRecord};
use super::up::{READY_TIMEOUT, StartingNode, await_node, log_path, name_error};
use super::{DemoError, node, process};
use crate::organisation::{Organisation, OrganisationKey};
use crate::printer::OutputPrinter;

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
    let name = Identity::parse(HOST_NAME).map_err(name_error)?;
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
    let timeout = READY_TIMEOUT + READY_TIMEOUT_PER_NODE * count;
    let mut starting = StartingNode { name, child, listener };
    let limits = (Instant::now() + timeout, timeout);
    await_node(&mut starting, directory, limits, |status| printer.print_message(status)).await
}
