//! The metrics of an instance, on the real page.

use std::collections::BTreeMap;

use muster_bus::Bytes;
use muster_tests::command::describe_output;
use muster_tests::organisation::connect;
use muster_wire::stores::NODES_BUCKET;

use super::fixture::GRACE_SECONDS;
use super::http::HttpFleet;
use crate::monitoring::{await_metrics_address, await_sample, scrape};
use crate::monitoring_files::{DIRECTORY_PREFIX, names_with_prefix};

/// The samples of a page, by series.
type Samples = BTreeMap<String, String>;

fn count_of(samples: &Samples, series: &str) -> u64 {
    samples.get(series).map_or(0, |value| value.parse().unwrap())
}

fn seconds_of(samples: &Samples, series: &str) -> f64 {
    samples.get(series).map_or(0.0, |value| value.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_and_queries_of_an_instance_are_counted() {
    let mut fleet = HttpFleet::start_prepared(|home| {
        home.write("conf.d/metrics.toml", "[metrics]\nlisten = \"0\"\n", 0o644);
        let grace = format!("[plugins.directory]\ngrace_seconds = {GRACE_SECONDS}\n");
        home.write("conf.d/grace.toml", &grace, 0o644);
    })
    .await;
    let address = await_metrics_address(&mut fleet.directory).await;
    let before = scrape(&address).await;
    for (series, value) in [
        ("nodes", "4"),
        ("missing_nodes", "0"),
        ("stale_nodes", "0"),
        ("refused_records_total", "0"),
        ("ready", "1"),
        ("current", "1"),
    ] {
        assert_eq!(before.get(&format!("muster_directory_{series}")).unwrap(), value, "{series}");
    }
    assert!(before.contains_key("muster_directory_listening_seconds"));
    let named = names_with_prefix("muster_").into_iter();
    for name in named.filter(|name| name.starts_with(DIRECTORY_PREFIX)) {
        assert!(before.contains_key(&name), "no directory serves {name}");
    }

    // Queries over the broker are counted with those of all agents.
    let [count, sum] = ["count", "sum"]
        .map(|part| format!("muster_action_seconds_{part}{{agent=\"directory\",action=\"list\"}}"));
    let total =
        "muster_requests_total{agent=\"directory\",action=\"list\",status=\"0\",reason=\"\"}";
    let output = fleet.fleet.rpc.run(&["nodes"]).await;
    assert!(output.status.success(), "{}", describe_output(&output));
    let after = scrape(&address).await;
    assert_eq!(count_of(&after, &count), count_of(&before, &count) + 1);
    assert_eq!(count_of(&after, total), count_of(&before, total) + 1);
    assert!(seconds_of(&after, &sum) > seconds_of(&before, &sum), "{after:?}");

    // Queries over HTTP, and responses of all kinds.
    for (path, status) in [("/v1/nodes", 200), ("/v1/nodes", 200), ("/v1/nodes/db9.acme.net", 404)]
    {
        assert_eq!(fleet.get(path, &[]).await.0, status);
    }
    let samples = scrape(&address).await;
    let [count, sum] = ["count", "sum"]
        .map(|part| format!("muster_directory_http_query_seconds_{part}{{page=\"nodes\"}}"));
    assert_eq!(count_of(&samples, &count), 2);
    assert!(seconds_of(&samples, &sum) > 0.0, "{samples:?}");
    for (code, count) in [("200", "2"), ("404", "1")] {
        let series = format!("muster_directory_http_responses_total{{code=\"{code}\"}}");
        assert_eq!(samples.get(&series).unwrap(), count, "{code}");
    }

    let attacker = fleet.fleet.organisation.unrestricted_user("attacker");
    let bus = connect(&fleet.fleet.server, &attacker).await;
    let bucket = bus.bucket(NODES_BUCKET.name);
    bucket.put_unconfirmed("db1.acme.net", Bytes::from("no record")).await.unwrap();
    await_sample(&address, "muster_directory_refused_records_total", "1").await;

    fleet.nodes.pop().unwrap().daemon.kill_and_wait();
    await_sample(&address, "muster_directory_missing_nodes", "1").await;
    await_sample(&address, "muster_directory_nodes", "4").await;

    // Without the broker, what is known stays, and is not current.
    drop(fleet.fleet.server);
    await_sample(&address, "muster_directory_current", "0").await;
    await_sample(&address, "muster_directory_ready", "1").await;
    await_sample(&address, "muster_directory_missing_nodes", "0").await;
}
