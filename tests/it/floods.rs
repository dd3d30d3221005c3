//! Messages that unauthenticated senders can cause without limit do not fill the log or the audit log.

use std::time::Duration;

use muster_bus::Bytes;
use muster_tests::command::{RpcCommand, describe_output};
use muster_tests::organisation::{Organisation, connect};
use muster_tests::poll_until_ok;
use muster_tests::rpcd::DaemonHome;
use tokio::time::Instant;

const FORGED_MESSAGES: usize = 3000;

#[tokio::test]
async fn many_forged_messages_write_few_log_lines() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker().await;
    let node = organisation.node("web1.acme.net");
    let daemon = DaemonHome::new(&organisation, &node, &server.url(), "").start();
    let caller = organisation.caller("rip");
    let rpc = RpcCommand::new(&server, &organisation, &caller, "");
    let ping = ["rpcutil", "ping", "-I", "web1.acme.net"];
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let output = rpc.run(&ping).await;
        if output.status.code() == Some(0) {
            break;
        }
        assert!(Instant::now() < deadline, "{}{}", describe_output(&output), daemon.log());
    }

    let bus = connect(&server, &caller).await;
    for number in 0..FORGED_MESSAGES {
        let forged = Bytes::from(format!("{{\"forged\": {number}, \"\u{1b}[2J\": \"\"}}"));
        bus.publish("muster.rpcutil.ping.all", forged).await.unwrap();
    }
    bus.confirm_delivery().await.unwrap();
    // Requests to all and to one node have subscriptions of their own, so a reply to the latter does not mean that the former are processed.
    let stats = ["rpcutil", "daemon_stats", "-I", "web1.acme.net"];
    poll_until_ok("all messages are refused", Duration::from_mins(1), async || {
        let (document, _) = rpc.run_json(&stats).await;
        let refused = document["replies"][0]["data"]["unvalidated"].as_u64();
        if refused == Some(FORGED_MESSAGES as u64) { Ok(()) } else { Err(document.to_string()) }
    })
    .await;
    let count = |text: &str, word: &str| text.lines().filter(|line| line.contains(word)).count();
    let log = daemon.log();
    let lines = count(&log, "refused a message");
    assert!((1..20).contains(&lines), "{lines} lines for {FORGED_MESSAGES} messages:\n{log}");
    assert!(!log.contains('\u{1b}'), "the log contains a terminal escape of the sender");
    let audit = std::fs::read_to_string(daemon.home().path("audit-refusals.log")).unwrap();
    let lines = count(&audit, "malformed");
    assert!((1..20).contains(&lines), "{lines} lines for {FORGED_MESSAGES} messages");
}
