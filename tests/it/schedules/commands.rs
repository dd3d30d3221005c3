//! `rpc schedule` as a person uses it: add, look, pause, and remove.

use std::process::Output;
use std::time::Duration;

use muster_tests::command::{RpcCommand, describe_output};
use muster_tests::poll_until_ok;
use serde_json::Value;

use super::fixture::ScheduleFixture;

fn text_of(output: &Output) -> String {
    assert!(output.status.success(), "{}", describe_output(output));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_add_look_at_pause_and_remove_schedules() {
    let fleet = ScheduleFixture::start().await;
    let rpc = RpcCommand::new(&fleet.server, &fleet.organisation, &fleet.author, "");
    let absent = rpc.run(&["schedule", "list"]).await;
    assert_eq!(absent.status.code(), Some(1), "{}", describe_output(&absent));
    assert!(describe_output(&absent).contains("no scheduling service is running"));

    let _scheduler = fleet.start_scheduler("mq1.example.net", "scheduler1");
    let node = fleet.start_node("web1.example.net", "{\"role\":\"web\"}");
    let list =
        poll_until_ok("the service and the node answer", Duration::from_mins(1), async || {
            let list = rpc.run(&["schedule", "list"]).await;
            let found = rpc.run(&["find", "-F", "role=web"]).await;
            let is_up = list.status.success() && found.status.success();
            if is_up { Ok(list) } else { Err(describe_output(&list)) }
        });
    assert!(describe_output(&list.await).contains("no schedules"));

    let path = format!("path={}", node.daemon.home().path("touched").display());
    let what = ["filemgr", "touch", path.as_str(), "-F", "role=web"];
    let times = ["--every", "1h", "--concurrency", "3", "--until", "30d"];
    // Before anything is added, without a name: what would start.
    let simulated = [&["schedule", "simulate"], &what[..], &times[..4]].concat();
    let simulation = rpc.read_document("muster.schedule.simulation.v1", &simulated).await;
    assert_eq!((&simulation["nodes"], &simulation["total"]), (&1.into(), &24.into()));

    let without = [&["schedule", "add", "touch"], &what[..]].concat();
    let refused = rpc.run(&without).await;
    assert_eq!(refused.status.code(), Some(4), "{}", describe_output(&refused));
    assert!(describe_output(&refused).contains("needs `--every` or `--cron`"));

    let add = [&["schedule", "add", "touch", "--yes"], &what[..], &times[..]].concat();
    let added = rpc.read_document("muster.schedule.added.v1", &add).await;
    assert_eq!((&added["name"], &added["replaced"]), (&"touch".into(), &false.into()));
    // The same line with the other word; a schedule that ends in half an hour starts once at most.
    let mut line = add.clone();
    line[1] = "simulate";
    let simulation = rpc.read_document("muster.schedule.simulation.v1", &line).await;
    assert_eq!(simulation["total"], 24);
    let short = [&line[..line.len() - 1], &["30m", "--replace"]].concat();
    let simulation = rpc.read_document("muster.schedule.simulation.v1", &short).await;
    assert!(simulation["total"].as_u64().unwrap() <= 1, "{simulation:#}");
    // The earlier spelling of --concurrency, for one release.
    let earlier =
        [&["schedule", "simulate"], &what[..], &["--every", "1h", "--limit", "3"]].concat();
    rpc.read_document("muster.schedule.simulation.v1", &earlier).await;
    let twice = rpc.run(&add).await;
    assert_eq!(twice.status.code(), Some(2), "a name is used once: {}", describe_output(&twice));
    let replaced = text_of(&rpc.run(&[&add[..], &["--replace"]].concat()).await);
    assert!(
        replaced.starts_with("replaced touch: ") && replaced.contains("first starts: "),
        "{replaced}"
    );
    fleet.await_nodes(1).await;

    let list = rpc.read_document("muster.schedules.v1", &["schedule", "list"]).await;
    assert_eq!(list["schedules"][0]["author"], "anna");
    let text = text_of(&rpc.run(&["schedule", "list"]).await);
    assert!(text.contains("filemgr touch") && text.contains("leader: mq1.example.net"), "{text}");
    let shown =
        rpc.read_document("muster.schedule.v1", &["schedule", "show", "touch", "--load"]).await;
    assert_eq!((&shown["spec"]["every"], &shown["spec"]["limit"]), (&3600.into(), &3.into()));
    let text = text_of(&rpc.run(&["schedule", "show", "touch"]).await);
    assert!(text.contains("Author:   anna\n") && text.contains("web1.example.net"), "{text}");
    rpc.read_document("muster.schedule.history.v1", &["schedule", "history", "touch"]).await;
    let known = ["schedule", "simulate", "touch"];
    let simulation = rpc.read_document("muster.schedule.simulation.v1", &known).await;
    assert_eq!(simulation["total"], 24, "the stored schedule");
    let changed = rpc.run(&[&known[..], &["--window", "mon 22:00-23:00"]].concat()).await;
    assert_eq!(changed.status.code(), Some(4), "{}", describe_output(&changed));
    assert!(describe_output(&changed).contains("`touch` is simulated as it is stored"));
    // A node that joins later has the second seat, although its name comes first.
    let _later = fleet.start_node("a1.example.net", "{\"role\":\"web\"}");
    fleet.await_nodes(2).await;
    poll_until_ok("each node's own time is simulated", Duration::from_mins(1), async || {
        let (simulation, _) = rpc.run_json(&known).await;
        let (shown, _) = rpc.run_json(&["schedule", "show", "touch"]).await;
        let starts = simulation["starts"].as_array().unwrap();
        let first: Value = starts.iter().take(2).cloned().collect();
        if first == shown["next"] { Ok(()) } else { Err((first, shown["next"].clone())) }
    })
    .await;

    text_of(&rpc.run(&["schedule", "pause", "touch", "--reason", "database move"]).await);
    let list = rpc.read_document("muster.schedules.v1", &["schedule", "list"]).await;
    assert_eq!(list["schedules"][0]["state"], "paused");
    text_of(&rpc.run(&["schedule", "resume", "touch"]).await);
    text_of(&rpc.run(&["schedule", "rebalance", "touch"]).await);
    text_of(&rpc.run(&["schedule", "remove", "touch"]).await);
    for command in ["show", "remove", "pause", "rebalance", "history"] {
        let unknown = rpc.run(&["schedule", command, "touch"]).await;
        let text = describe_output(&unknown);
        assert_eq!(unknown.status.code(), Some(2), "{command}: {text}");
        assert!(text.contains("there is no schedule touch"), "{command}: {text}");
    }
}
