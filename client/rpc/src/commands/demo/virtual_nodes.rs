//! Starts one daemon that runs all nodes (`rpcd virtual`), and tells how far it is.

use std::path::Path;
use std::time::Duration;

use muster_wire::identity::Identity;
use tokio::time::Instant;

use super::ready::{self, Listener};
use super::record::{self, Record};
use super::up::{PATIENCE, Starting, log_of, not_ready};
use super::{DemoError, node, process};
use crate::clock;
use crate::organisation::{Key, Organisation, OrganisationError};
use crate::printer::Printer;

/// The name of the process, and of its directory; none of its nodes has it.
const NAME: &str = "virtual";
/// How long each node may take, in the mean: a key, a token, and a connection over TLS.
const EACH: Duration = Duration::from_millis(10);

/// Starts it, and returns when all its nodes are connected.
pub async fn run(
    count: u32,
    daemon: &Path,
    organisation: &Organisation,
    directory: &Path,
    record: &mut Record,
    printer: &Printer,
) -> Result<(), DemoError> {
    let name = Identity::parse(NAME).map_err(|error| OrganisationError::Name(error.to_string()))?;
    let place = directory.join(NAME);
    let config = {
        let lock = organisation.lock()?;
        node::make_host(organisation, &lock, &place, &name, clock::now())?
    };
    let listener = Listener::new(directory.join("run/0"))?;
    let (nodes, key) = (count.to_string(), organisation.layout().key(Key::Node));
    let arguments = [
        "--config".as_ref(),
        config.as_os_str(),
        "virtual".as_ref(),
        "--nodes".as_ref(),
        nodes.as_ref(),
        "--node-key".as_ref(),
        key.as_os_str(),
    ];
    let reports = [(ready::VARIABLE, listener.path().as_os_str())];
    let log = log_of(directory, &name);
    let (child, process) = process::start(daemon, &arguments, &reports, &log)?;
    record.nodes.push(record::Node {
        name: NAME.to_owned(),
        in_memory: Some(count),
        process,
    });
    record.save(directory)?;
    let starting = Starting {
        name,
        child,
        listener,
    };
    all_ready(starting, count, directory, printer).await
}

async fn all_ready(
    mut starting: Starting,
    count: u32,
    directory: &Path,
    printer: &Printer,
) -> Result<(), DemoError> {
    let patience = PATIENCE + EACH * count;
    let deadline = Instant::now() + patience;
    let child = &mut starting.child;
    let mut ended = None;
    let is_over = || {
        ended = child.try_wait().ok().flatten();
        ended.is_some()
    };
    let tell = |status: &str| printer.say(status);
    let listener = &starting.listener;
    if listener.ready_telling(deadline, is_over, tell).await {
        return Ok(());
    }
    Err(not_ready(&starting, ended, patience, directory))
}
