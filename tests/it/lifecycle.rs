//! Shutdown of the daemon, restarts of the broker, and the requests that are running then.

use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_bus::Bytes;
use muster_calls::{CallTarget, RpcCall};
use muster_tests::await_state;
use muster_tests::nats_server::NETWORK_TIMEOUT;
use muster_tests::organisation::{Organisation, connect};
use muster_wire::identity::Identity;
use muster_wire::status::ReplyStatus;
use serde_json::json;

use crate::node_fixture::{NodeFixture, to_object};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopping_daemon_waits_for_running_actions() {
    let fixture = NodeFixture::new(|_| {}).await;
    let nodes = [Identity::parse("node1.example.net").unwrap()].into();
    let mut call = RpcCall::new("puppetral", "do", CallTarget::Nodes(nodes)).unwrap();
    // The action ends when the test creates a file.
    let script = "echo x > /tmp/begun; while ! test -e /tmp/go; do sleep 0.05; done";
    call.data =
        to_object(json!({"type": "exec", "name": "wait", "command": script, "provider": "shell"}));
    let calls = fixture.caller.call(call);
    let stop = async {
        await_state("the action runs", || fixture.node.root().join("tmp/begun").exists()).await;
        fixture.node.request_stop();
        let release_file = fixture.node.root().join("tmp/go");
        std::fs::write(release_file, "").unwrap();
    };
    let ((answers, stats), ()) = tokio::join!(calls, stop);
    assert!(stats.missing.is_empty(), "{stats:?}");
    assert!(
        answers.values().all(|answer| answer.reply.statuscode == ReplyStatus::Ok),
        "{answers:?}"
    );
    fixture.node.stop_and_wait().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_and_caller_reconnect_after_a_broker_restart() {
    let NodeFixture { organisation: _organisation, server, node, caller } =
        NodeFixture::new(|_| {}).await;
    let server = server.restart().await;
    let answered = async {
        loop {
            let nodes = [Identity::parse("node1.example.net").unwrap()].into();
            let mut call = RpcCall::new("rpcutil", "ping", CallTarget::Nodes(nodes)).unwrap();
            call.wait = Duration::from_millis(500);
            let mut events = caller.client.call(call);
            while let Some(event) = events.next().await {
                if matches!(event, muster_calls::CallEvent::Reply(_)) {
                    return;
                }
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), answered).await.unwrap();
    drop((server, node));
}

/// The client library regards a subscription as flushed when its bytes are in the socket, so messages of another
/// connection could arrive earlier.
#[tokio::test]
async fn confirmed_subscriptions_receive_all_later_messages() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker().await;
    let caller = connect(&server, &organisation.caller("rip")).await;
    let node = connect(&server, &organisation.node("node1.example.net")).await;
    for _ in 0..200 {
        let mut requests = node.subscribe_all(&["muster.*.*.all".to_owned()]).await.unwrap();
        caller.publish("muster.rpcutil.ping.all", Bytes::from_static(b"x")).await.unwrap();
        let message = tokio::time::timeout(NETWORK_TIMEOUT, requests[0].next()).await;
        assert!(message.unwrap().is_some());
    }
}

/// Each request is received, or the broker reports that there are no responders. This includes requests that the broker
/// was sending when the subscription was drained.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drained_subscription_loses_no_request() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker().await;
    let caller = connect(&server, &organisation.caller("rip")).await;
    let node = connect(&server, &organisation.unrestricted_user("node1")).await;
    for round in 0..20 {
        let subjects = ["muster.*.*.all".to_owned()];
        let mut requests = node.subscribe_all(&subjects).await.unwrap().remove(0);
        // Concurrent requests, so that the broker always has messages in transit.
        let calls = (0..16).map(async |_| {
            loop {
                let payload = Bytes::from_static(b"x");
                if let Err(error) = caller.request("muster.rpcutil.ping.all", payload).await {
                    return error.to_string();
                }
            }
        });
        let replying = async {
            let mut received = 0_u32;
            while let Some(message) = requests.next().await {
                received += 1;
                let to = message.reply_to().unwrap();
                node.publish(to, Bytes::from_static(b"y")).await.unwrap();
                if received == 200 {
                    node.drain_subscription(&mut requests).await.unwrap();
                }
            }
        };
        let (errors, ()) = tokio::join!(futures_util::future::join_all(calls), replying);
        for error in errors {
            assert!(error.contains("no responders"), "round {round}: {error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemon_without_a_broker_stops_at_once() {
    let NodeFixture { organisation: _organisation, server, node, caller: _caller } =
        NodeFixture::new(|_| {}).await;
    let core = Arc::clone(&node.core);
    drop(server);
    let started = Instant::now();
    node.stop_and_wait().await;
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "{} took {:?}",
        core.identity(),
        started.elapsed()
    );
}

/// What is published without a connection waits in the client library's queue. When that is full, nothing can be sent, not even an unsubscribe.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemon_with_a_full_queue_stops_at_once() {
    let NodeFixture { organisation: _organisation, server, node, caller: _caller } =
        NodeFixture::new(|_| {}).await;
    let bus = node.bus.clone();
    drop(server);
    bus.wait_disconnected().await;
    let publish = || bus.publish("muster.reply.x", Bytes::from_static(b"x"));
    while tokio::time::timeout(Duration::from_secs(1), publish()).await.is_ok() {}
    let started = Instant::now();
    node.stop_and_wait().await;
    assert!(started.elapsed() < Duration::from_secs(5), "took {:?}", started.elapsed());
}
