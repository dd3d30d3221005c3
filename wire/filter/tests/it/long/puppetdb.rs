//! A real `PuppetDB` in its own directory on a free loopback port.

#![expect(clippy::indexing_slicing, reason = "the test knows the documents that it reads")]

use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::pql_answers::{Nodes, RecordedNode};

/// The program.
const JAR: &str = "/usr/share/puppetdb/puppetdb.jar";
/// How long the start may take on a busy machine.
const START_TIMEOUT: Duration = Duration::from_mins(6);
const TIMESTAMP: &str = "2026-11-29T00:00:00.000Z";

/// A running server; dropping it ends it.
pub(crate) struct PuppetDb {
    child: Child,
    directory: PathBuf,
    port: u16,
}

impl PuppetDb {
    /// Starts the server and waits until it answers. Returns `None` if it is not installed and `MUSTER_TESTS_WITHOUT` names it; fails the test if it
    /// is not installed otherwise.
    #[expect(clippy::disallowed_types, reason = "the test starts the real server")]
    pub(crate) fn start() -> Option<Self> {
        if !Path::new(JAR).exists() {
            let is_left_out = std::env::var("MUSTER_TESTS_WITHOUT")
                .is_ok_and(|names| names.split(',').any(|name| name == "puppetdb"));
            assert!(
                is_left_out,
                "puppetdb is not installed: run tools/fetch-puppetserver, or name it in MUSTER_TESTS_WITHOUT"
            );
            return None;
        }
        let ports = free_ports();
        let directory =
            std::env::temp_dir().join(format!("muster-puppetdb-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let log = fs::File::create(directory.join("script.log")).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/puppetdb");
        let child = std::process::Command::new(script)
            .arg(&directory)
            .args(ports.iter().map(ToString::to_string))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut server = Self { child, directory, port: ports[0] };
        server.wait_until_ready();
        Some(server)
    }

    fn wait_until_ready(&mut self) {
        let started = Instant::now();
        loop {
            let is_ready =
                fs::read_to_string(self.directory.join("ready")).is_ok_and(|text| text == "1");
            if is_ready {
                return;
            }
            let log = fs::read_to_string(self.directory.join("script.log")).unwrap_or_default();
            assert!(self.child.try_wait().unwrap().is_none(), "puppetdb ended: {log}");
            assert!(started.elapsed() < START_TIMEOUT, "puppetdb does not start: {log}");
            #[expect(clippy::disallowed_methods, reason = "polls a file without a runtime")]
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Adds nodes.
    pub(crate) fn load(&self, nodes: &Nodes) {
        for (name, node) in nodes {
            self.load_node(name, node);
        }
    }

    fn load_node(&self, name: &str, node: &RecordedNode) {
        let id = "00000000-0000-4000-8000-000000000000";
        let resources: Vec<_> = class_titles(&node.classes).into_iter().map(|title| json!({
            "type": "Class", "title": title, "aliases": [], "exported": false, "file": null, "line": null, "tags": [], "parameters": {},
        })).collect();
        let facts = json!({
            "certname": name, "environment": "production", "values": node.facts, "producer_timestamp": TIMESTAMP, "producer": "test",
        });
        self.send_command("replace_facts", 5, name, &facts);
        if resources.is_empty() {
            return;
        }
        let catalog = json!({
            "certname": name, "version": "1", "environment": "production", "transaction_uuid": id, "catalog_uuid": id, "code_id": null,
            "producer_timestamp": TIMESTAMP, "producer": "test", "job_id": null, "edges": [], "resources": resources,
        });
        self.send_command("replace_catalog", 9, name, &catalog);
    }

    fn send_command(&self, command: &str, version: u8, name: &str, body: &Value) {
        let path = format!(
            "/pdb/cmd/v1?command={command}&version={version}&certname={name}&producer-timestamp={TIMESTAMP}&secondsToWaitForCompletion=60"
        );
        let (status, answer) = self.request("POST", &path, &body.to_string());
        let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
        let is_stored =
            answer["processed"] == true && answer.get("error").is_none_or(Value::is_null);
        assert!(status == 200 && is_stored, "{command} of {name}: {status} {answer}");
    }

    /// Which of the nodes a query selects, sorted; none if the query is refused.
    pub(crate) fn select(&self, nodes: &Nodes, query: &str) -> Option<Vec<String>> {
        let mut encoded = String::new();
        for byte in query.bytes() {
            write!(encoded, "%{byte:02x}").unwrap();
        }
        let (status, answer) = self.request("GET", &format!("/pdb/query/v4?query={encoded}"), "");
        if status != 200 {
            return None;
        }
        let rows: Vec<Value> = serde_json::from_str(&answer).ok()?;
        let names = rows.iter().filter_map(|row| row["certname"].as_str());
        let mut names: Vec<_> =
            names.filter(|name| nodes.contains_key(*name)).map(str::to_owned).collect();
        names.sort();
        Some(names)
    }

    fn request(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head[9..12].parse().unwrap(), body.to_owned())
    }
}

/// Two ports that are free at the moment.
fn free_ports() -> [u16; 2] {
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

impl Drop for PuppetDb {
    fn drop(&mut self) {
        // The script ends when its standard input does.
        self.child.stdin.take();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// The titles in a catalog with these classes. Those that are no classes of Puppet are definitions of nodes.
fn class_titles(classes: &[String]) -> Vec<String> {
    let mut titles = Vec::new();
    for class in classes.iter().filter(|class| *class != "default" && !class.contains('.')) {
        let parts = class.split("::").map(|part| {
            let (first, rest) = part.split_at(1);
            first.to_uppercase() + rest
        });
        titles.push(parts.collect::<Vec<_>>().join("::"));
    }
    if !classes.is_empty() {
        titles.push("main".to_owned());
    }
    titles
}
