//! Starts the demonstration's broker, and reads its port from the ports file that nats-server writes.

use std::fs;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use muster_files::files;
use muster_organisation::{NatsServerConfig, Organisation};
use serde::Deserialize;
use tokio::time::{Instant, interval};

use crate::commands::demo::error::DemoError;
use crate::commands::demo::process::{DemoProcess, log_tail};
use crate::commands::demo::{process, record};

const LISTEN_TIMEOUT: Duration = Duration::from_secs(20);
/// Poll interval for the ports file.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
const MAX_PORTS_BYTES: u64 = 64 * 1024;

/// The ports file of nats-server: addresses for clients.
#[derive(Debug, Deserialize)]
struct PortsFile {
    nats: Vec<String>,
}

/// A started broker that does not listen yet.
#[derive(Debug)]
pub struct StartingBroker {
    child: Child,
    pub process: DemoProcess,
}

/// Starts the broker on the loopback interface.
pub fn start_broker(
    program: &Path,
    organisation: &Organisation,
    directory: &Path,
) -> Result<StartingBroker, DemoError> {
    let ports = directory.join("ports");
    files::create_private_directory(&ports)?;
    let mut conf = NatsServerConfig::for_organisation(organisation);
    "127.0.0.1".clone_into(&mut conf.host);
    conf.jetstream = Some(directory.join("jetstream"));
    conf.ports_directory = Some(ports);
    let path = organisation.layout().broker_config();
    conf.write_config(&path)?;
    let log = directory.join("log/broker.log");
    let (child, process) =
        process::start_process(program, &["--config".as_ref(), path.as_os_str()], &[], &log)?;
    Ok(StartingBroker { child, process })
}

impl StartingBroker {
    /// Waits until the broker listens and returns its URL.
    pub async fn await_url(
        &mut self,
        directory: &Path,
    ) -> Result<record::BrokerProcess, DemoError> {
        let deadline = Instant::now() + LISTEN_TIMEOUT;
        let mut ticks = interval(POLL_INTERVAL);
        let failure = || ("the broker".to_owned(), log_tail(&directory.join("log/broker.log")));
        loop {
            if let Some(url) = read_client_url(&directory.join("ports")) {
                return Ok(record::BrokerProcess { url, process: self.process });
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                let (name, log_tail) = failure();
                return Err(DemoError::Ended { name, status, log_tail });
            }
            if Instant::now() > deadline {
                let (name, log_tail) = failure();
                return Err(DemoError::NotReady { name, timeout: LISTEN_TIMEOUT, log_tail });
            }
            ticks.tick().await;
        }
    }
}

/// The URL in the ports file, once the file is complete.
fn read_client_url(directory: &Path) -> Option<String> {
    let mut entries = fs::read_dir(directory).ok()?.filter_map(Result::ok);
    let file = entries.find(|entry| entry.path().extension().is_some_and(|end| end == "ports"))?;
    let ports: PortsFile =
        serde_json::from_str(&files::read_text(&file.path(), MAX_PORTS_BYTES).ok()?).ok()?;
    ports.nats.into_iter().next()
}
