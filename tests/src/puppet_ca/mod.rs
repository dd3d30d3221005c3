//! An authority that speaks Puppet Server's CA API, version 1, with real certificates: for tests that want many signatures in a short time.
//!
//! It says what Puppet Server 7.9 says, in its words, and is held against the real one where that is installed. Keeps everything in memory.

#![expect(clippy::indexing_slicing, reason = "JSON that may lack a key is asked for it")]

mod books;
mod certificates;
mod serve;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use rcgen::KeyPair;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use self::books::Books;
use self::certificates::params;
use self::serve::{acceptor, serve};

/// A running authority, ended with its owner.
#[derive(Debug)]
pub struct PuppetCa {
    books: Arc<Mutex<Books>>,
    directory: TempDir,
    port: u16,
    running: JoinHandle<()>,
}

/// What it was asked, and what it answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The verb.
    pub method: String,
    /// The path, without the prefix of the API.
    pub path: String,
    /// The answer's status.
    pub status: u16,
}

impl PuppetCa {
    /// Starts an authority on a free loopback port. Its own certificate, in the files of [`Self::path`], may administer it.
    pub async fn start() -> Self {
        let directory = TempDir::new().unwrap();
        let mut books = Books::new();
        for (name, others, rights) in [
            ("server", &["localhost", "127.0.0.1"][..], true),
            ("stranger", &["stranger"][..], false),
        ] {
            let (certificate, key) = books.own(name, others, rights);
            std::fs::write(directory.path().join(format!("{name}.pem")), certificate).unwrap();
            let path = directory.path().join(format!("{name}.key"));
            std::fs::write(&path, key).unwrap();
            // As Puppet makes them.
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o640);
            std::fs::set_permissions(&path, mode).unwrap();
        }
        std::fs::write(directory.path().join("ca.pem"), &books.ca).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let acceptor = acceptor(&directory);
        let books = Arc::new(Mutex::new(books));
        let served = Arc::clone(&books);
        let running = tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    continue;
                };
                let (acceptor, books) = (acceptor.clone(), Arc::clone(&served));
                tokio::spawn(async move { serve(stream, acceptor, books).await });
            }
        });
        Self { books, directory, port, running }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap()
    }

    /// The address as clients write it.
    pub fn url(&self) -> String {
        format!("https://localhost:{}", self.port)
    }

    /// `ca.pem`; `server.pem` and `server.key`, who may administer; `stranger.pem` and `stranger.key`, who may not.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The section `[plugins.puppetca]` of a node that administers it.
    pub fn options(&self) -> Value {
        json!({
            "enabled": true, "backend": "api", "url": self.url(), "ca": self.path("ca.pem"),
            "cert": self.path("server.pem"), "key": self.path("server.key"),
        })
    }

    /// Signs by itself what is asked for from now on.
    pub fn autosign(&self) {
        self.books().autosign = true;
    }

    /// A request comes in, as by PUT: status and words of the answer.
    pub fn submit(&self, name: &str, request: &str) -> (u16, String) {
        let answer = self.books().submit(name, request);
        (answer.status, answer.body)
    }

    /// `requested`, `signed` or `revoked`; `None` for a name that it does not know.
    pub fn state(&self, name: &str) -> Option<&'static str> {
        self.books().names.get(name).map(|name| name.state.word())
    }

    /// The certificate of a name, PEM.
    pub fn certificate(&self, name: &str) -> Option<String> {
        self.books().names.get(name)?.certificate.clone()
    }

    /// How often a name was signed, also under earlier certificates.
    pub fn times_signed(&self, name: &str) -> usize {
        self.books().signed.get(name).copied().unwrap_or_default()
    }

    /// The serial numbers in the revocation list.
    pub fn revoked(&self) -> Vec<u64> {
        self.books().revoked.clone()
    }

    /// What it was asked so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.books().asked.clone()
    }
}

impl Drop for PuppetCa {
    fn drop(&mut self) {
        self.running.abort();
    }
}

/// A request for a name with other names, PEM, and its key.
pub fn request(name: &str, others: &[&str]) -> (String, KeyPair) {
    let key = KeyPair::generate().unwrap();
    let request = params(name, others).serialize_request(&key).unwrap();
    (request.pem().unwrap(), key)
}
