//! Expressions and templates that would evaluate for years, over the data of a directory that lies: each ends with an error, by itself.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use muster_tests::command::describe_output;
use muster_tests::organisation::connect;
use muster_wire::token::ServiceRight;
use serde_json::{Value, json};

use crate::directory::fixture::{DirectoryFixture, answer_for_directory};

/// What the command needs besides the evaluation, on a busy machine.
const COMMAND_TIME: Duration = Duration::from_secs(20);

/// The limit in seconds, and a command.
const ENDLESS: [(u64, &[&str]); 7] = [
    (30, &["nodes", "--jq", "def f: f; f"]),
    (
        30,
        &[
            "nodes",
            "--jq",
            "last(.nodes[] as $a | .nodes[] as $b | .nodes[] as $c | .nodes[] as $d | 1)",
        ],
    ),
    (30, &["nodes", "--jq", "first(range(1e18) | select(. < 0))"]),
    (10, &["nodes", "-o", "jsonpath=$..[?count($..[?count($..[?count($..*) > 1]) > 1]) > 1]"]),
    (
        5,
        &[
            "find",
            "--dm",
            "directory",
            "--template",
            "{% for i in range(90000) %}{% if range(90000) | list | sum %}{% endif %}{% endfor %}",
        ],
    ),
    (
        5,
        &[
            "find",
            "--dm",
            "directory",
            "--template",
            "{% set l = range(90000) | list %}{% for i in l %}{% if 'x' in l %}{% endif %}{% endfor %}",
        ],
    ),
    (
        5,
        &[
            "find",
            "--dm",
            "directory",
            "--template",
            "{% for i in range(90000) %}{% if range(90000) | map('string') | join | length %}{% endif %}{% endfor %}",
        ],
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endless_expressions_and_templates_end_with_an_error() {
    let fleet = DirectoryFixture::start().await;
    let service = fleet.organisation.service(ServiceRight::Directory, "liar");
    let names: Vec<String> =
        (0..1000).map(|number| format!("web{number:04}.example.net")).collect();
    let row = |name: &String| json!({"node": name, "state": "present", "seen": 1});
    let rows: Vec<Value> = names.iter().map(row).collect();
    let told = move |nodes: Value| json!({"nodes": nodes, "total": 1000, "more": 0, "freshness": {"ready": true}});
    let (names, rows) = (told(json!(names)), told(json!(rows)));
    let bus = connect(&fleet.server, &service).await;
    answer_for_directory(
        bus,
        service,
        move |action, _| {
            if action == "find" { names.clone() } else { rows.clone() }
        },
    )
    .await;
    let run = async |(seconds, words): &(u64, &[&str])| {
        let (began, limit) = (Instant::now(), Duration::from_secs(*seconds));
        let output = fleet.rpc.run(words).await;
        let (took, text) = (began.elapsed(), describe_output(&output));
        let expected = format!("the evaluation takes longer than {seconds} s");
        assert!(text.contains(&expected), "{words:?}: {text}");
        assert_eq!(output.status.code(), Some(1), "{words:?}: {text}");
        assert!(took >= limit && took < limit + COMMAND_TIME, "{words:?}: {took:?}");
    };
    join_all(ENDLESS.iter().map(run)).await;
}
