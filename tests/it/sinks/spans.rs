//! Requests and runs as spans, in a receiver of OTLP.

use muster_tests::rpcd::DaemonHome;
use muster_tests::webhook::{Webhook, WebhookRequest};
use serde_json::{Value, json};

use super::{NODE, apply_message, await_events, section, target};
use crate::history::HistoryFleet;

#[tokio::test(flavor = "multi_thread")]
async fn requests_and_runs_are_exported_as_spans() {
    let hook = Webhook::start().await;
    hook.answer_next(&[Some(503)]);
    let options = |home: &DaemonHome| {
        section(home) + &target("traces", "otlp", &format!("url = {:?}", hook.url()))
    };
    let (fleet, home) = HistoryFleet::start_with(options).await;
    let _node = home.clone().start();
    fleet.await_node().await;
    apply_message(&fleet, &home, "one").await;
    let read_spans = || -> Vec<Value> {
        let accepted = hook.requests().into_iter().filter(|request| request.answer != Some(503));
        let export = |request: WebhookRequest| -> Vec<Value> {
            let export: Value = serde_json::from_slice(&request.body).unwrap();
            let resource = &export["resourceSpans"][0];
            let service = json!({"key": "service.name", "value": {"stringValue": "muster"}});
            assert_eq!(resource["resource"]["attributes"], json!([service]));
            resource["scopeSpans"][0]["spans"].as_array().unwrap().clone()
        };
        accepted.flat_map(export).collect()
    };
    let spans = await_events("the spans have arrived", 2, read_spans).await;
    let find = |name: &str| spans.iter().find(|span| span["name"] == name).unwrap();
    let (request, run) = (find("catalog.apply"), find("run"));
    for span in [request, run] {
        let text = |name: &str| span[name].as_str().unwrap();
        assert_eq!((text("traceId").len(), text("spanId").len()), (32, 16), "{span}");
        let [begin, end] =
            ["startTimeUnixNano", "endTimeUnixNano"].map(|name| text(name).parse::<u64>().unwrap());
        assert!(begin <= end && begin > 1_700_000_000_000_000_000, "{span}");
        let node = json!({"key": "host.name", "value": {"stringValue": NODE}});
        assert!(span["attributes"].as_array().unwrap().contains(&node), "{span}");
        assert_eq!(span["status"], json!({"code": 1}), "{span}");
    }
    assert_eq!((&run["traceId"], &run["parentSpanId"]), (&request["traceId"], &request["spanId"]));
    assert_eq!(run["events"][0]["name"], "Notify[one]", "{run}");
}
