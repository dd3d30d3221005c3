//! Without a directory, with one that does not answer, with one that lies, and with two.

use std::time::{Duration, Instant};

use muster_calls::DirectoryError;
use muster_contract::directory::{DirectoryShow, DirectoryShowInput, DirectoryStatus};
use muster_ddl::EmptyInput;
use muster_tests::command::describe_output;
use muster_tests::organisation::{Organisation, connect};
use muster_tests::poll_until_ok;
use muster_tests::published_schemas::{SchemaMode, check_schema};
use muster_wire::token::{ServiceRight, UserRole};
use serde_json::{Value, json};

use super::fixture::{ANSWER_TIMEOUT, DirectoryFixture, answer_for_directory, lines};

/// The bound of the fallback, and the time of a broadcast and of a command on a busy machine.
const FALLBACK_BOUND: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_directory_nodes_are_found_by_broadcast_silently() {
    let fleet = DirectoryFixture::start().await;
    let _node = fleet.start_node("db1.acme.net", "{}", "");
    fleet.await_found(&["db1.acme.net"]).await;
    let output = fleet.rpc.run(&["find"]).await;
    assert_eq!(lines(&output.stdout), ["db1.acme.net"], "{}", describe_output(&output));
    assert_eq!(lines(&output.stderr), [""; 0], "{}", describe_output(&output));
    // With `--dm directory`, and for commands that only the directory can answer, its absence is an error.
    let verify = ["node", "db1.acme.net", "--verify"];
    for demanded in [&["find", "--dm", "directory"][..], &["nodes"], &verify] {
        let output = fleet.rpc.run(demanded).await;
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{demanded:?}: {}", describe_output(&output));
        assert!(errors.contains("no directory is running"), "{demanded:?}: {errors}");
    }
    // A node's page does without the sections of services that do not run.
    let output = fleet.rpc.run(&["node", "db1.acme.net"]).await;
    let page = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{}", describe_output(&output));
    for line in
        ["no directory is running", "Daemon:\n", "Checks: none\n", "Runs: no ", "History: no "]
    {
        assert!(page.contains(line), "{line}: {page}");
    }
    let (document, code) = fleet.rpc.run_json(&["node", "db1.acme.net", "--live"]).await;
    assert_eq!((code, &document["source"]), (0, &json!("node")), "{document:#}");
    check_schema("muster.node.v1", &document, SchemaMode::Strict).unwrap();
    let gone = fleet.rpc.run(&["node", "db9.acme.net"]).await;
    assert_eq!(gone.status.code(), Some(3), "{}", describe_output(&gone));
    let output = fleet.rpc.run(&["check-registration"]).await;
    assert_eq!(output.status.code(), Some(3), "{}", describe_output(&output));
    assert!(lines(&output.stdout)[0].starts_with("UNKNOWN: no directory is running"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_directory_is_replaced_by_a_broadcast_with_a_message() {
    let fleet = DirectoryFixture::start().await;
    let mut directory = fleet.start_directory("dir1.acme.net", "directory1");
    let _node = fleet.start_node("db1.acme.net", "{}", "");
    fleet.await_present(&["db1.acme.net", "dir1.acme.net"]).await;
    directory.daemon.freeze().await;
    // Where nothing else may be asked, the command waits for the directory.
    let only = fleet.rpc.prepare_command(&["find", "--dm", "directory"]).output();
    let only = tokio::spawn(only);
    let started = Instant::now();
    let output = fleet.rpc.run(&["find"]).await;
    let took = started.elapsed();
    directory.daemon.thaw();
    let only = only.await.unwrap().unwrap();
    let all = ["db1.acme.net", "dir1.acme.net"];
    assert_eq!(lines(&only.stdout), all, "{}", describe_output(&only));
    assert_eq!(lines(&output.stdout), ["db1.acme.net"], "{}", describe_output(&output));
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let expected = "the directory did not answer within 300 ms; asking all nodes";
    assert!(errors.contains(expected), "{errors}");
    assert!(took < FALLBACK_BOUND, "{took:?}");
    poll_until_ok("the directory answers again", Duration::from_mins(1), async || {
        let output = fleet.rpc.run(&["find", "--dm", "directory"]).await;
        if output.status.success() { Ok(()) } else { Err(describe_output(&output)) }
    })
    .await;

    // This caller has had an answer of the directory, so its end is reported, too.
    directory.daemon.kill_and_wait();
    poll_until_ok("the absence is reported", Duration::from_mins(1), async || {
        let output = fleet.rpc.run(&["find"]).await;
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_reported =
            errors.contains("no directory is running") && errors.contains("asking all nodes");
        let is_found = lines(&output.stdout) == ["db1.acme.net"];
        if is_reported && is_found { Ok(()) } else { Err(describe_output(&output)) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn second_instance_answers_when_one_is_killed() {
    let fleet = DirectoryFixture::start().await;
    let mut first = fleet.start_directory("dir1.acme.net", "directory1");
    let _second = fleet.start_directory("dir2.acme.net", "directory2");
    let names = ["db1.acme.net", "dir1.acme.net", "dir2.acme.net"];
    let _node = fleet.start_node("db1.acme.net", "{}", "");
    fleet.await_present(&names).await;
    poll_until_ok("both instances know all nodes", Duration::from_mins(1), async || {
        for _ in 0..10 {
            let output = fleet.rpc.run(&["find", "--dm", "directory"]).await;
            if lines(&output.stdout) != names {
                return Err(describe_output(&output));
            }
        }
        Ok(())
    })
    .await;
    first.daemon.kill_and_wait();
    for _ in 0..10 {
        let output = fleet.rpc.run(&["find", "--dm", "directory"]).await;
        assert_eq!(lines(&output.stdout), names, "{}", describe_output(&output));
    }
}

/// An instance whose bucket is missing has read nothing: it must not be believed that there are no nodes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn directory_that_has_not_read_the_records_is_not_asked() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker().await;
    let fleet = DirectoryFixture::on_broker(organisation, server);
    let _directory = fleet.start_directory("dir1.acme.net", "directory1");
    fleet.await_found(&["dir1.acme.net"]).await;
    poll_until_ok("the directory answers", Duration::from_mins(1), async || {
        let output = fleet.rpc.run(&["nodes"]).await;
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        if errors.contains("the directory is not up to date") { Ok(()) } else { Err(errors) }
    })
    .await;
    let output = fleet.rpc.run(&["find"]).await;
    assert_eq!(lines(&output.stdout), ["dir1.acme.net"], "{}", describe_output(&output));
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(errors.contains("has just started") && errors.contains("asking all nodes"), "{errors}");
    let output = fleet.rpc.run(&["check-registration"]).await;
    assert_eq!(output.status.code(), Some(3), "{}", describe_output(&output));
    assert!(lines(&output.stdout)[0].starts_with("UNKNOWN: "), "{}", describe_output(&output));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_token_with_the_right_answers_for_the_directory() {
    let fleet = DirectoryFixture::start().await;
    let _node = fleet.start_node("db1.acme.net", "{}", "");
    fleet.await_found(&["db1.acme.net"]).await;
    let organisation = &fleet.organisation;
    // A hostile broker delivers their answers.
    let bus = connect(&fleet.server, &organisation.unrestricted_user("liar")).await;
    let tags = ServiceRight::tags(&[ServiceRight::Directory]);
    let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
    let liars = [
        organisation.node("liar1.acme.net"),
        organisation.user(UserRole::Node, "liar2.acme.net", &tags),
        organisation.user(UserRole::Service, "liar3", &[]),
        organisation.service(ServiceRight::Schedule, "liar4"),
        organisation.service(ServiceRight::Provision, "liar5"),
    ];
    for liar in liars {
        let name = liar.identity().clone();
        let told =
            |_: &str, _: &Value| json!({"nodes": ["none.acme.net"], "freshness": {"ready": true}});
        let answering = answer_for_directory(bus.clone(), liar, told).await;
        let client = fleet.client().await;
        let answer = client.query_directory::<DirectoryStatus>(&EmptyInput {}, ANSWER_TIMEOUT);
        let refused = answer.await.unwrap_err();
        assert!(
            matches!(&refused, DirectoryError::NotADirectory(found) if *found == name),
            "{refused}"
        );
        let output = fleet.rpc.run(&["find"]).await;
        assert_eq!(lines(&output.stdout), ["db1.acme.net"], "{}", describe_output(&output));
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let expected = format!("{name} answered for the directory without the right to");
        assert!(errors.contains(&expected), "{errors}");
        answering.abort();
        let _ = answering.await;
    }
}

/// A stolen service key can answer for the directory. `--verify` compares with what the node signed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verify_fails_when_the_answer_differs_from_what_the_node_signed() {
    let fleet = DirectoryFixture::start().await;
    let mut directory = fleet.start_directory("dir1.acme.net", "directory1");
    let _node = fleet.start_node("db1.acme.net", r#"{"tier": "test"}"#, "");
    fleet.await_present(&["db1.acme.net", "dir1.acme.net"]).await;
    let client = fleet.client().await;
    let show = DirectoryShowInput { node: "db1.acme.net".to_owned(), record: Some(true) };
    let told = client.query_directory::<DirectoryShow>(&show, ANSWER_TIMEOUT).await.unwrap();
    let told = serde_json::to_value(told).unwrap();
    directory.daemon.kill_and_wait();

    let bus = connect(&fleet.server, &fleet.organisation.unrestricted_user("liar")).await;
    let service = fleet.organisation.service(ServiceRight::Directory, "directory1");
    let truth = std::sync::Arc::new(std::sync::Mutex::new(told));
    let shared = std::sync::Arc::clone(&truth);
    answer_for_directory(bus, service, move |_, _| shared.lock().unwrap().clone()).await;
    let verify = ["node", "db1.acme.net", "--verify"];
    let output = fleet.rpc.run(&verify).await;
    assert_eq!(output.status.code(), Some(0), "{}", describe_output(&output));

    for (field, lie) in [
        ("/facts/tier", json!("production")),
        ("/agents/rpcutil", json!("9.9.9")),
        ("/classes", json!(["mysql::master"])),
        ("/node/version", json!("9.9.9")),
        ("/node/collectives", json!(["others"])),
        ("/node/node", json!("db2.acme.net")),
        ("/state", json!({"puppet": "disabled"})),
        ("/record_time", json!(1)),
        ("/record", Value::Null),
    ] {
        let honest = truth.lock().unwrap().clone();
        if let Some(value) = truth.lock().unwrap().pointer_mut(field) {
            *value = lie;
        } else {
            panic!("no field {field} in {honest:#}");
        }
        let output = fleet.rpc.run(&verify).await;
        assert_eq!(output.status.code(), Some(2), "{field}: {}", describe_output(&output));
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(errors.contains("is not what db1.acme.net signed"), "{field}: {errors}");
        *truth.lock().unwrap() = honest;
    }
}
