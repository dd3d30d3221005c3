//! A real Prometheus on a free loopback port, which scrapes and evaluates rules every second; stopped through its process handle.

#![expect(clippy::disallowed_types, reason = "runs Prometheus")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::File;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cluster::{free_ports, get_monitoring};
use crate::command::{end_program, print_log_of_failure};
use crate::nats_server::NETWORK_TIMEOUT;
use crate::{poll_until_ok, tools};

/// The names of the jobs, as the alert rules expect them.
pub const NODE_JOB: &str = "muster";
pub const BROKER_JOB: &str = "muster-broker";

/// A running server.
#[derive(Debug)]
pub struct Prometheus {
    child: Child,
    directory: TempDir,
    port: u16,
    /// The address of each instance, by job and name.
    targets: BTreeMap<(&'static str, String), String>,
}

/// An alert that fires: its name, and its label `instance`, empty if it has none.
pub type FiringAlert = (String, String);

impl Prometheus {
    /// Starts a server with these rules and no targets.
    pub async fn start(rules: &str) -> Self {
        let directory = TempDir::new().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("rules.yml"), rules).unwrap();
        std::fs::write(path("prometheus.yml"), configuration().to_string()).unwrap();
        let [port] = free_ports();
        let log = File::create(path("log")).unwrap();
        let child = Command::new(tools::find_tool("prometheus"))
            .arg(format!("--config.file={}", path("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", path("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut server = Self { child, directory, port, targets: BTreeMap::new() };
        poll_until_ok("Prometheus is ready", NETWORK_TIMEOUT, async || {
            let ended = server.child.try_wait().unwrap();
            assert!(ended.is_none(), "Prometheus ended: {}", server.log());
            match get_monitoring(port, "/-/ready").await {
                Ok(answer) if answer.contains(" 200 ") => Ok(()),
                other => Err(other),
            }
        })
        .await;
        server
    }

    /// Scrapes `/metrics` at this address under the name of an instance, from now on instead of an earlier address of it.
    pub fn watch(&mut self, job: &'static str, instance: &str, address: &str) {
        self.targets.insert((job, instance.to_owned()), address.to_owned());
        let of_job = self.targets.iter().filter(|((found, _), _)| *found == job);
        let entry = |((_, instance), address): (&(_, String), &String)| json!({"targets": [address], "labels": {"instance": instance}});
        let list: Vec<Value> = of_job.map(entry).collect();
        let path = self.directory.path().join(format!("{job}.json"));
        let staged = path.with_extension("new");
        std::fs::write(&staged, Value::from(list).to_string()).unwrap();
        std::fs::rename(staged, path).unwrap();
    }

    /// Waits until each instance was scraped this often, with or without success.
    pub async fn await_scrapes(&self, count: u32) {
        let expected = self.targets.len();
        let expression = format!("count(count_over_time(up[1h])>={count})");
        poll_until_ok("all instances are scraped", NETWORK_TIMEOUT, async || {
            let result = self.query(&expression).await;
            let found = result.pointer("/result/0/value/1").and_then(Value::as_str);
            if found == Some(expected.to_string().as_str()) { Ok(()) } else { Err(result) }
        })
        .await;
    }

    /// The alerts that fire now.
    pub async fn firing_alerts(&self) -> BTreeSet<FiringAlert> {
        let data = self.get("/api/v1/alerts").await;
        let alerts = data.get("alerts").and_then(Value::as_array).unwrap();
        let label = |alert: &Value, name: &str| {
            alert.pointer(name).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let firing = alerts.iter().filter(|alert| alert.get("state") == Some(&json!("firing")));
        firing
            .map(|alert| (label(alert, "/labels/alertname"), label(alert, "/labels/instance")))
            .collect()
    }

    /// The result of an expression now.
    pub async fn query(&self, expression: &str) -> Value {
        let mut path = "/api/v1/query?query=".to_owned();
        for byte in expression.bytes() {
            write!(path, "%{byte:02x}").unwrap();
        }
        self.get(&path).await
    }

    async fn get(&self, path: &str) -> Value {
        let answer = get_monitoring(self.port, path).await.unwrap();
        let body = answer.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default();
        let document: Value =
            serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"));
        document.get("data").cloned().unwrap_or_else(|| panic!("{answer}"))
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }
}

/// The configuration; JSON is YAML.
fn configuration() -> Value {
    let job = |name: &str| {
        let targets = json!([{"files": [format!("{name}.json")], "refresh_interval": "1s"}]);
        json!({"job_name": name, "file_sd_configs": targets})
    };
    json!({
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yml"],
        "scrape_configs": [job(NODE_JOB), job(BROKER_JOB)],
    })
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        end_program(&mut self.child);
        print_log_of_failure("prometheus", || self.log());
    }
}
