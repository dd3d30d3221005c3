//! `/v1/http_sd` with the service discovery of Prometheus itself.

#![expect(clippy::disallowed_types, reason = "runs promtool")]

use std::collections::BTreeSet;

use muster_tests::command::describe_output;
use muster_tests::tools;
use serde_json::Value;
use tokio::process::Command;

use super::http::HttpFleet;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prometheus_discovers_the_nodes_of_a_query() {
    if tools::is_skipped("promtool") {
        return;
    }
    let fleet = HttpFleet::start().await;
    let (home, address) = (fleet.directory.home(), fleet.address().await);
    home.write("token", "secret", 0o600);
    let url = format!(
        "https://{address}/v1/http_sd?port=9100&label=customer&q=%7B%20classes%3A%20%27mysql%3A%3Amaster%27%20%7D"
    );
    let config = format!(
        "scrape_configs:\n- job_name: fleet\n  relabel_configs:\n  - source_labels: [__meta_muster_node]\n    target_label: instance\n  http_sd_configs:\n  - url: {url:?}\n    authorization:\n      type: Bearer\n      credentials_file: {:?}\n    tls_config:\n      ca_file: {:?}\n",
        home.path("token").display().to_string(),
        fleet.certificate().display().to_string(),
    );
    home.write("prometheus.yml", &config, 0o644);
    let path = home.path("prometheus.yml");
    let mut command = Command::new(tools::find_tool("promtool"));
    command.args(["check", "service-discovery", "--timeout=10s"]).arg(&path).arg("fleet");
    let output = command.output().await.unwrap();
    assert!(output.status.success(), "{}", describe_output(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    let json = text.split_once('[').map(|(_, json)| format!("[{json}")).unwrap();
    let targets: Value = serde_json::from_str(&json).unwrap();
    let name = |target: &Value| target["labels"]["instance"].as_str().unwrap().to_owned();
    // promtool prints them in no order.
    let instances: BTreeSet<String> = targets.as_array().unwrap().iter().map(name).collect();
    assert_eq!(
        instances,
        BTreeSet::from(["db1.acme.net", "db2.acme.net"].map(str::to_owned)),
        "{}",
        describe_output(&output)
    );
    assert_eq!(targets[0]["labels"]["customer"], "acme");
}
