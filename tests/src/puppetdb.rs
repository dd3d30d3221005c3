//! A real `PuppetDB` in its own directory on a free loopback port, with a `PostgreSQL` of its own.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::poll_until_ok;
use crate::tools::is_skipped;

/// The program.
const JAR: &str = "/usr/share/puppetdb/puppetdb.jar";
/// How long the start may take on a busy machine.
const START_TIMEOUT: Duration = Duration::from_mins(6);

/// A running server; dropping it ends it.
#[derive(Debug)]
pub struct PuppetDb {
    child: Child,
    directory: TempDir,
    port: u16,
}

impl PuppetDb {
    /// Starts the server and waits until it answers. Returns `None` if it is not installed and `MUSTER_TESTS_WITHOUT` names it; fails the test if it
    /// is not installed otherwise.
    #[expect(clippy::disallowed_types, reason = "the harness starts the server")]
    pub async fn start() -> Option<Self> {
        if !Path::new(JAR).exists() {
            assert!(
                is_skipped("puppetdb"),
                "puppetdb is not installed: run tools/fetch-puppetserver, or name it in MUSTER_TESTS_WITHOUT"
            );
            return None;
        }
        let directory = TempDir::new().unwrap();
        let [port, database] = free_ports();
        let log = fs::File::create(directory.path().join("script.log")).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools/puppetdb");
        let child = std::process::Command::new(script)
            .arg(directory.path())
            .args([port, database].map(|port| port.to_string()))
            // The script ends with it.
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut server = Self { child, directory, port };
        poll_until_ok("puppetdb is ready", START_TIMEOUT, async || {
            let ended = server.child.try_wait().unwrap();
            assert!(ended.is_none(), "puppetdb ended: {}", server.log());
            let is_ready = fs::read_to_string(server.path("ready")).is_ok_and(|text| text == "1");
            if is_ready { Ok(()) } else { Err(server.log()) }
        })
        .await;
        Some(server)
    }

    /// The URL for clients.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The path of a file or directory of the server.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The answer to a query in PQL.
    pub async fn query(&self, pql: &str) -> Vec<Value> {
        self.get_rows("", pql).await
    }

    /// The answer to a query of an entity, in JSON.
    pub async fn query_entity(&self, entity: &str, query: &str) -> Vec<Value> {
        self.get_rows(&format!("/{entity}"), query).await
    }

    #[expect(clippy::disallowed_types, reason = "the harness speaks HTTP")]
    async fn get_rows(&self, path: &str, query: &str) -> Vec<Value> {
        let output = tokio::process::Command::new("curl")
            .args(["-sS", "-f", "-G", "--data-urlencode", &format!("query={query}")])
            .arg(format!("{}/pdb/query/v4{path}", self.url()))
            .output()
            .await
            .unwrap();
        assert!(output.status.success(), "{query}: {output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Sends a command, and returns the answer of the server, which does not look into its body.
    #[expect(clippy::disallowed_types, reason = "the harness speaks HTTP")]
    pub async fn send_command(&self, parameters: &str, body: &str) -> String {
        let output = tokio::process::Command::new("curl")
            .args(["-sS", "-f", "-H", "Content-Type: application/json", "--data-binary", body])
            .arg(format!("{}/pdb/cmd/v1?{parameters}", self.url()))
            .output()
            .await
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The files of commands that the server could not process.
    pub fn discarded(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.path("var/stockpile/discard")) else {
            return Vec::new();
        };
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    /// The server's log and output.
    pub fn log(&self) -> String {
        let read = |name: &str| fs::read_to_string(self.path(name)).unwrap_or_default();
        format!("{}{}{}", read("puppetdb.log"), read("stdout.log"), read("script.log"))
    }
}

impl Drop for PuppetDb {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Two ports that are free now.
fn free_ports() -> [u16; 2] {
    let listeners = [(), ()].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}
