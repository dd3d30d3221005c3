//! A service key that answers for the directory: it chooses no node that executes a request.

use muster_bus::BusSubscription;
use muster_tests::command::describe_output;
use muster_tests::organisation::connect;
use muster_wire::token::ServiceRight;
use serde_json::{Value, json};

use crate::directory::fixture::{DirectoryFixture, answer_for_directory};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_of_a_lying_directory_are_checked_by_caller_and_node() {
    let fleet = DirectoryFixture::start().await;
    let db1 = fleet.start_node("db1.acme.net", r#"{"role": "db"}"#, "mysql\n");
    let _web1 = fleet.start_node("web1.acme.net", r#"{"role": "web"}"#, "apache\n");
    fleet.await_found(&["db1.acme.net", "web1.acme.net"]).await;
    let file = db1.daemon.home().path("made");
    let liar = fleet.organisation.service(ServiceRight::Directory, "liar");
    let bus = connect(&fleet.server, &liar).await;
    let told = json!({"nodes": ["db1.acme.net"], "total": 1, "freshness": {"ready": true}});
    answer_for_directory(bus, liar, move |_, _| told.clone()).await;

    let name = format!("name={}", file.display());
    let request = ["puppetral", "type=file", name.as_str(), "ensure=present", "--yes"];
    for filter in [&["-C", "apache"][..], &["-F", "role=web"], &["-S", "apache and not mysql"]] {
        let output = fleet.rpc.run(&[&["do"], &request[..], filter].concat()).await;
        let text = describe_output(&output);
        assert_eq!(output.status.code(), Some(2), "{filter:?}: {text}");
        assert!(text.contains("db1.acme.net"), "{filter:?}: {text}");
        assert!(text.contains("does not match the filter of the request"), "{filter:?}: {text}");
        assert!(!file.exists(), "{filter:?} ran on db1");
    }
    // A name that the caller's own patterns exclude is not even asked.
    let pattern = ["-I", "/^web/", "--dm", "directory"];
    let output = fleet.rpc.run(&[&["do"], &request[..], &pattern].concat()).await;
    let text = describe_output(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("liar answered for the directory with the node db1.acme.net"), "{text}");
    assert!(!file.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn list_of_a_lying_directory_ends() {
    let fleet = DirectoryFixture::start().await;
    let liar = fleet.organisation.service(ServiceRight::Directory, "liar");
    let bus = connect(&fleet.server, &liar).await;
    answer_for_directory(bus, liar, |_, input| {
        let after = input["after"].as_str().unwrap_or("n000000000");
        let first: usize = after.trim_start_matches('n').parse().unwrap();
        let names: Vec<String> =
            (first + 1..first + 10_000).map(|number| format!("n{number:09}")).collect();
        json!({"nodes": names, "total": 1, "next": names.last(), "freshness": {"ready": true}})
    })
    .await;
    let output = fleet.rpc.run(&["find", "--dm", "directory"]).await;
    let text = describe_output(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("does not end"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn password_is_encrypted_for_no_node_that_a_lying_directory_adds() {
    let fleet = DirectoryFixture::start().await;
    let _db1 = fleet.start_node("db1.acme.net", r#"{"role": "db"}"#, "mysql\n");
    let _web1 = fleet.start_node("web1.acme.net", r#"{"role": "web"}"#, "apache\n");
    fleet.await_found(&["db1.acme.net", "web1.acme.net"]).await;
    let liar = fleet.organisation.service(ServiceRight::Directory, "liar");
    let bus = connect(&fleet.server, &liar).await;
    let nodes = ["db1.acme.net", "web1.acme.net"];
    let told = json!({"nodes": nodes, "total": 2, "freshness": {"ready": true}});
    answer_for_directory(bus, liar, move |_, _| told.clone()).await;

    // What the thief of both keys reads: the requests to the two nodes.
    let thief = connect(&fleet.server, &fleet.organisation.node("db1.acme.net")).await;
    let mut stolen = thief.subscribe("muster.*.*.node.db1.acme.net").await.unwrap();
    let other = connect(&fleet.server, &fleet.organisation.node("web1.acme.net")).await;
    let mut honest = other.subscribe("muster.*.*.node.web1.acme.net").await.unwrap();
    thief.flush().await.unwrap();
    other.flush().await.unwrap();

    let inputs = ["type=user", "name=rip", "password=$6$secret", "ensure=present", "--noop"];
    let command = [&["do", "puppetral"], &inputs[..], &["-C", "apache", "--yes"]].concat();
    let text = describe_output(&fleet.rpc.run(&command).await);
    assert!(text.contains("does not match the filter of the request"), "{text}");
    let sealed_for = async |requests: &mut BusSubscription| loop {
        let request = requests.next().await.unwrap();
        let body: Value = serde_json::from_slice(request.payload()).unwrap();
        if body.pointer("/body/agent") == Some(&json!("puppetral")) {
            return body.pointer("/body/sealed").cloned().unwrap_or_default().to_string();
        }
    };
    let sealed = sealed_for(&mut honest).await;
    assert!(sealed.contains("web1.acme.net"), "{sealed}");
    assert!(!sealed.contains("db1.acme.net"), "{sealed}");
    assert!(!sealed_for(&mut stolen).await.contains("db1.acme.net"));
}
