//! A simulated authority with Puppet Server's CA API, version 1, and real certificates, for tests that need many
//! signatures in a short time.
//!
//! Returns the texts of Puppet Server 7.9, and is compared with the real server where that is installed. Keeps
//! everything in memory.

#![expect(clippy::indexing_slicing, reason = "the index of a missing JSON key is null")]

mod certificates;
mod database;
mod serve;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use rcgen::KeyPair;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use self::certificates::certificate_params;
use self::database::CaDatabase;
use self::serve::serve;
use crate::tls_acceptor::build_tls_acceptor;

/// A running authority; dropping it ends it.
#[derive(Debug)]
pub struct PuppetCa {
    database: Arc<Mutex<CaDatabase>>,
    directory: TempDir,
    port: u16,
    hold: watch::Sender<RequestHold>,
    running: JoinHandle<()>,
}

/// Requests that a simulated authority holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestHold {
    /// None.
    None,
    /// All.
    All,
    /// The next one only.
    Next,
    /// The one that has arrived since [`Self::Next`].
    Taken,
}

impl RequestHold {
    /// Waits while the request that has just arrived is held.
    async fn wait_released(held: &watch::Sender<Self>) {
        let is_next = held.send_if_modified(|held| {
            let is_next = *held == Self::Next;
            if is_next {
                *held = Self::Taken;
            }
            is_next
        });
        let is_released = |held: &Self| match held {
            Self::None | Self::Next => true,
            Self::All => false,
            Self::Taken => !is_next,
        };
        // An error means that the authority has ended.
        let _ = held.subscribe().wait_for(is_released).await;
    }
}

/// A request that was handled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandledRequest {
    /// The HTTP method.
    pub method: String,
    /// The path, without the prefix of the API.
    pub path: String,
    /// The response's status code.
    pub status: u16,
}

impl PuppetCa {
    /// Starts an authority on a free loopback port. The certificate `server`, in the files of [`Self::path`], may
    /// administer it.
    pub async fn start() -> Self {
        let directory = TempDir::new().unwrap();
        let mut database = CaDatabase::new();
        for (name, others, is_admin) in [
            ("server", &["localhost", "127.0.0.1"][..], true),
            ("stranger", &["stranger"][..], false),
        ] {
            let (certificate, key) = database.issue_own_certificate(name, others, is_admin);
            std::fs::write(directory.path().join(format!("{name}.pem")), certificate).unwrap();
            let path = directory.path().join(format!("{name}.key"));
            std::fs::write(&path, key).unwrap();
            // The mode that Puppet uses.
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o640);
            std::fs::set_permissions(&path, mode).unwrap();
        }
        std::fs::write(directory.path().join("ca.pem"), &database.ca).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let acceptor = build_tls_acceptor(directory.path(), "server.pem", "server.key");
        let database = Arc::new(Mutex::new(database));
        let served = Arc::clone(&database);
        let hold = watch::Sender::new(RequestHold::None);
        let shared_hold = hold.clone();
        let running = tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    continue;
                };
                let (acceptor, database) = (acceptor.clone(), Arc::clone(&served));
                let hold = shared_hold.clone();
                tokio::spawn(async move { serve(stream, acceptor, database, hold).await });
            }
        });
        Self { database, directory, port, hold, running }
    }

    /// Which requests over HTTP the authority reads, and handles when nothing is held any more.
    pub fn hold_requests(&self, held: RequestHold) {
        self.hold.send_replace(held);
    }

    /// Whether the one request of [`RequestHold::Next`] has arrived.
    pub fn is_holding_next(&self) -> bool {
        *self.hold.borrow() == RequestHold::Taken
    }

    fn database(&self) -> MutexGuard<'_, CaDatabase> {
        self.database.lock().unwrap()
    }

    /// The URL for clients.
    pub fn url(&self) -> String {
        format!("https://localhost:{}", self.port)
    }

    /// `ca.pem`; `server.pem` and `server.key`, which may administer; `stranger.pem` and `stranger.key`, which may not.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The section `[plugins.puppetca]` of a node that administers this authority.
    pub fn options(&self) -> Value {
        json!({
            "enabled": true, "backend": "api", "url": self.url(), "ca": self.path("ca.pem"),
            "cert": self.path("server.pem"), "key": self.path("server.key"),
        })
    }

    /// Signs later requests without an operator.
    pub fn enable_autosign(&self) {
        self.database().autosign = true;
    }

    /// Submits a request, as PUT does; returns the status code and text of the response.
    pub fn submit(&self, name: &str, request: &str) -> (u16, String) {
        let answer = self.database().submit(name, request);
        (answer.status, answer.body)
    }

    /// `requested`, `signed` or `revoked`; `None` for an unknown name.
    pub fn state(&self, name: &str) -> Option<&'static str> {
        self.database().names.get(name).map(|name| name.state.as_str())
    }

    /// The certificate of a name, PEM.
    pub fn certificate(&self, name: &str) -> Option<String> {
        self.database().names.get(name)?.certificate.clone()
    }

    /// Revokes the certificate of a name.
    pub fn revoke(&self, name: &str) {
        self.database().revoke(name).unwrap();
    }

    /// The revocation list, PEM.
    pub fn revocation_list(&self) -> String {
        self.database().revocation_list()
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// How often a name was signed, including earlier certificates.
    pub fn times_signed(&self, name: &str) -> usize {
        self.database().signed.get(name).copied().unwrap_or_default()
    }

    /// The serial numbers in the revocation list.
    pub fn revoked(&self) -> Vec<u64> {
        self.database().revoked.clone()
    }

    /// The requests that were handled so far.
    pub fn handled_requests(&self) -> Vec<HandledRequest> {
        self.database().handled.clone()
    }
}

impl Drop for PuppetCa {
    fn drop(&mut self) {
        self.running.abort();
    }
}

/// A certificate request for a name with these alternative names, PEM, and its key.
pub fn request(name: &str, others: &[&str]) -> (String, KeyPair) {
    let key = KeyPair::generate().unwrap();
    let request = certificate_params(name, others).serialize_request(&key).unwrap();
    (request.pem().unwrap(), key)
}
