//! The dashboard and the alert rules of `packaging/monitoring`: each metric in them is served by a real daemon or broker, and promtool accepts them.

#![expect(clippy::disallowed_types, reason = "runs promtool")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::{JETSTREAM_CONFIG, Organisation};
use muster_tests::tools;
use regex::Regex;
use serde_json::Value;

use crate::monitoring::{METRICS_CONFIG, await_metrics_address, exchange, get, prepare_node};

/// Files with names of metrics.
const FILES: [&str; 2] = ["muster-dashboard.json", "muster.rules.yml"];

/// Prefix of the broker's metrics; the rest of the name is a key of nats-server's page `/varz`.
const BROKER_PREFIX: &str = "gnatsd_varz_";

/// Prefix of the metrics of an instance of the directory.
pub(crate) const DIRECTORY_PREFIX: &str = "muster_directory_";
/// Prefix of the metrics of a history.
pub(crate) const HISTORY_PREFIX: &str = "muster_history_";

fn monitoring_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/monitoring")
}

/// The text of the alert rules.
pub(crate) fn read_rules() -> String {
    std::fs::read_to_string(monitoring_directory().join("muster.rules.yml")).unwrap()
}

/// The names with this prefix in the files.
pub(crate) fn names_with_prefix(prefix: &str) -> BTreeSet<String> {
    // No letter or hyphen before the prefix: `job="muster-broker"` and `uid: muster-fleet` are no metrics.
    let name = Regex::new(&format!(r"\b{prefix}[a-z_]+\b")).unwrap();
    let mut found = BTreeSet::new();
    for file in FILES {
        let text = std::fs::read_to_string(monitoring_directory().join(file)).unwrap();
        let names: BTreeSet<String> =
            name.find_iter(&text).map(|m| m.as_str().to_owned()).collect();
        assert!(!names.is_empty(), "{file} names no metric {prefix}*");
        found.extend(names);
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemon_serves_each_metric_that_the_files_name() {
    let (_organisation, _server, home) = prepare_node(METRICS_CONFIG).await;
    let mut node = home.start();
    let address = await_metrics_address(&mut node).await;
    let (status, page) = get(&address, "/metrics").await;
    assert_eq!(status, 200, "{page}");
    let served: BTreeSet<&str> =
        page.lines().filter_map(|line| line.strip_prefix("# HELP ")?.split(' ').next()).collect();
    let is_served = |name: &String| {
        let family = name.strip_suffix("_sum").or_else(|| name.strip_suffix("_count"));
        served.contains(name.as_str()) || family.is_some_and(|family| served.contains(family))
    };
    // Those of a directory: `directory::metrics`, of a history: `history::past_runs`.
    let mut named = names_with_prefix("muster_");
    named.retain(|name| !name.starts_with(DIRECTORY_PREFIX) && !name.starts_with(HISTORY_PREFIX));
    assert!(named.len() > 25, "only {} metrics", named.len());
    let missing: Vec<_> = named.iter().filter(|name| !is_served(name)).collect();
    assert!(missing.is_empty(), "no daemon serves {missing:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broker_reports_each_value_that_the_files_name() {
    let organisation = Organisation::new(&["muster"]);
    let text = format!(
        "{}{JETSTREAM_CONFIG}http: \"127.0.0.1:-1\"\n",
        organisation.broker_configuration()
    );
    let server = NatsServer::start(&text).await;
    // Version 1.0 of HTTP: the server closes the connection after its response.
    let answer = exchange(&monitoring_address(&server), b"GET /varz HTTP/1.0\r\n\r\n").await;
    let (_, page) = answer.split_once("\r\n\r\n").unwrap();
    let values: Value = serde_json::from_str(page).unwrap();
    for name in names_with_prefix(BROKER_PREFIX) {
        let key = name.strip_prefix(BROKER_PREFIX).unwrap();
        assert!(has_number(&values, key), "/varz has no number {key}: {page}");
    }
}

/// Whether there is a number under this key, whose parts may be those of nested objects.
fn has_number(values: &Value, key: &str) -> bool {
    values.as_object().into_iter().flatten().any(|(name, value)| {
        let rest = key.strip_prefix(name.as_str()).and_then(|rest| rest.strip_prefix('_'));
        (name == key && value.is_number()) || rest.is_some_and(|rest| has_number(value, rest))
    })
}

/// The address of the monitoring endpoint, from the server's log.
fn monitoring_address(server: &NatsServer) -> String {
    let log = server.log();
    let (_, after) = log.split_once("Starting http monitor on ").unwrap();
    after.split_whitespace().next().unwrap().to_owned()
}

/// `make slow` waits until the condition of each alert holds for real programs.
#[test]
fn each_alert_is_fired_by_a_slow_test() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("it/slow/alerts");
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let tests: String = files.map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let rules = read_rules();
    let alerts: Vec<&str> =
        rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() >= 25, "{alerts:?}");
    for alert in alerts {
        assert!(tests.contains(&format!("await_firing(\"{alert}\"")), "no test fires {alert}");
    }
}

fn run_promtool(arguments: &[&str], directory: &Path) {
    let run = Command::new(tools::find_tool("promtool"))
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap();
    let output = [run.stdout, run.stderr].concat();
    assert!(run.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output));
}

#[test]
fn promtool_accepts_rules_and_their_tests() {
    if tools::is_skipped("promtool") {
        return;
    }
    let directory = monitoring_directory();
    run_promtool(&["check", "rules", "muster.rules.yml"], &directory);
    run_promtool(&["test", "rules", "muster.rules.test.yml"], &directory);
}

/// The expressions of the dashboard, as recording rules, with Grafana's variables replaced.
#[test]
fn promtool_accepts_the_expressions_of_the_dashboard() {
    if tools::is_skipped("promtool") {
        return;
    }
    let path = monitoring_directory().join("muster-dashboard.json");
    let dashboard: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.filter_map(|panel| panel["targets"].as_array()).flatten();
    let expressions = targets.map(|target| target["expr"].as_str().unwrap());
    let rules: Vec<Value> = expressions
        .map(|expression| expression.replace("$__rate_interval", "5m").replace("$instance", ".*"))
        .enumerate()
        .map(|(number, expression)| {
            serde_json::json!({"record": format!("panel:{number}"), "expr": expression})
        })
        .collect();
    assert!(rules.len() > 20, "only {} expressions", rules.len());
    let scratch = tempfile::tempdir().unwrap();
    let groups = serde_json::json!({"groups": [{"name": "dashboard", "rules": rules}]});
    std::fs::write(scratch.path().join("rules.yml"), groups.to_string()).unwrap();
    run_promtool(&["check", "rules", "rules.yml"], scratch.path());
}
