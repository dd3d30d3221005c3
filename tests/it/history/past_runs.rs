//! Runs that nodes report as if they had been some time ago, and the metrics of a history that has them.

use std::time::Duration;

use muster_tests::command::describe_output;
use muster_tests::organisation::connect;
use muster_tests::poll_until_ok;
use muster_wire::history::{HistoryEvent, HistoryRecord, PUPPET_ENGINE, RunCause};
use muster_wire::stores::HISTORY_BUCKET;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{HistoryFleet, TIMEOUT, message_of};
use crate::monitoring::{await_metrics_address, await_sample, scrape};
use crate::monitoring_files::{HISTORY_PREFIX, names_with_prefix};

/// How a reported run ended.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PastEnd {
    Failed,
    Aborted,
    /// It changed nothing, but would have changed a file.
    Differing,
}

impl HistoryFleet {
    /// Reports a run of a node that began this long ago.
    pub(crate) async fn report_past_run(&self, node: &str, end: PastEnd, ago: Duration) {
        let signer = self.organisation.node(node);
        let (run, time) =
            (Uuid::now_v7(), muster_tests::now() - u64::try_from(ago.as_millis()).unwrap());
        let cause = RunCause { engine: PUPPET_ENGINE.to_owned(), ..RunCause::default() };
        let begin = json!({"host": node, "noop": matches!(end, PastEnd::Differing)});
        let mut events = vec![HistoryEvent::Start { run, cause, report: map(&begin) }];
        let status =
            |status: &str| HistoryEvent::End { run, report: map(&json!({"status": status})) };
        match end {
            PastEnd::Failed => events.push(status("failed")),
            PastEnd::Aborted => {
                events.push(HistoryEvent::Aborted { run, reason: "killed".to_owned() });
            }
            PastEnd::Differing => {
                let change = json!({
                    "resource": "File[/etc/motd]", "out_of_sync": true,
                    "events": [{"property": "mode", "previous_value": "0600", "desired_value": "0644", "status": "noop"}],
                });
                events.push(HistoryEvent::Resource { run, status: map(&change) });
                events.push(status("unchanged"));
            }
        }
        let record = |(seq, event)| HistoryRecord { seq, time, number: Some(seq - 1), event };
        let records: Vec<_> = (1..).zip(events).map(record).collect();
        let bytes = message_of(&signer, signer.identity(), Uuid::now_v7(), &records);
        let bus = connect(&self.server, &signer).await;
        bus.bucket(HISTORY_BUCKET.name).put(node, bytes.into()).await.unwrap();
    }
}

fn map(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_say_how_the_last_runs_ended_and_what_differs() {
    let (mut fleet, _home) = HistoryFleet::start().await;
    let address = await_metrics_address(&mut fleet.history).await;
    let (hour, days) = (Duration::from_hours(1), Duration::from_hours(8 * 24));
    fleet.report_past_run("web1.acme.net", PastEnd::Failed, hour).await;
    fleet.report_past_run("web2.acme.net", PastEnd::Failed, 3 * hour).await;
    fleet.report_past_run("db1.acme.net", PastEnd::Aborted, hour).await;
    fleet.report_past_run("db2.acme.net", PastEnd::Differing, days).await;
    let bucket = connect(&fleet.server, &fleet.organisation.administrator()).await;
    bucket.bucket(HISTORY_BUCKET.name).put("web1.acme.net", "{}".into()).await.unwrap();
    for (series, value) in [
        ("last_runs{status=\"failed\"}", "2"),
        ("last_runs{status=\"aborted\"}", "1"),
        ("last_runs{status=\"unchanged\"}", "1"),
        ("silent_nodes", "2"),
        ("differing_nodes", "1"),
        ("behind_messages", "0"),
        ("records_total", "9"),
        ("refused_messages_total", "1"),
    ] {
        await_sample(&address, &format!("{HISTORY_PREFIX}{series}"), value).await;
    }
    let page = scrape(&address).await;
    let since: u64 =
        page[&format!("{HISTORY_PREFIX}differing_since_timestamp_seconds")].parse().unwrap();
    assert!((muster_tests::now() / 1000 - since).abs_diff(days.as_secs()) < 60, "{since}");
    for name in names_with_prefix(HISTORY_PREFIX) {
        assert!(page.keys().any(|series| series.starts_with(&name)), "no history serves {name}");
    }
}

/// The newest of the 14 periods of a fortnight has today's runs.
#[tokio::test(flavor = "multi_thread")]
async fn statistics_count_runs_by_period() {
    let (fleet, _home) = HistoryFleet::start().await;
    let hour = Duration::from_hours(1);
    fleet.report_past_run("web1.acme.net", PastEnd::Failed, hour).await;
    fleet.report_past_run("web2.acme.net", PastEnd::Aborted, hour).await;
    fleet.report_past_run("db1.acme.net", PastEnd::Differing, 50 * hour).await;
    let found = poll_until_ok("all runs are counted", TIMEOUT, async || {
        let output = fleet.rpc.run(&["report", "stats", "--since", "14d", "-j"]).await;
        let found: Value =
            serde_json::from_slice(&output.stdout).map_err(|_| describe_output(&output))?;
        if found["nodes"] == 3 { Ok(found) } else { Err(found.to_string()) }
    })
    .await;
    let counts = |period: usize| {
        let period = &found["periods"][period];
        ["runs", "failed", "aborted"].map(|name| period[name].as_u64().unwrap())
    };
    assert_eq!((counts(13), counts(11)), ([2, 1, 1], [1, 0, 0]), "{found:#}");
    assert_eq!((&found["median"], found["slowest"].as_array().unwrap().len()), (&json!(0), 2));
    let output = fleet.rpc.run(&["report", "stats", "--since", "14d"]).await;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.contains("3 runs of 3 nodes: 0 changed something, 1 failed, 1 were cut off"),
        "{text}"
    );
    assert!(text.contains(&"#".repeat(40)), "{text}");
    let none =
        fleet.rpc.run(&["report", "stats", "--until", "2020-01-01", "--since", "2019-12-01"]).await;
    assert_eq!(String::from_utf8_lossy(&none.stdout), "no runs in this time\n");
}
