//! What strangers can cause as often as they like costs little: neither the log nor the audit log grows with it.

use std::time::Duration;

use muster_bus::Bytes;
use muster_tests::command::{RpcCommand, describe_output};
use muster_tests::organisation::{Organisation, connect};
use muster_tests::rpcd::DaemonHome;
use tokio::time::Instant;

const FLOOD: usize = 3000;

#[tokio::test]
async fn a_flood_of_forgeries_is_a_few_lines_of_both_logs() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker().await;
    let node = organisation.node("web1.acme.net");
    let daemon = DaemonHome::new(&organisation, &node, &server.url(), "").start();
    let caller = organisation.caller("rip");
    let rpc = RpcCommand::new(&server, &organisation, &caller, "");
    let ping = ["rpcutil", "ping", "-I", "web1.acme.net"];
    let until = Instant::now() + Duration::from_mins(1);
    loop {
        let output = rpc.run(&ping).await;
        if output.status.code() == Some(0) {
            break;
        }
        assert!(Instant::now() < until, "{}{}", describe_output(&output), daemon.log());
    }

    let bus = connect(&server, &caller).await;
    for number in 0..FLOOD {
        let forged = Bytes::from(format!("{{\"forged\": {number}, \"\u{1b}[2J\": \"\"}}"));
        bus.publish("muster.rpcutil.ping.all", forged).await.unwrap();
    }
    bus.confirm_delivery().await.unwrap();
    // Taken in order: with this answer all of them are over.
    let output = rpc.run(&ping).await;
    assert_eq!(output.status.code(), Some(0), "{}", describe_output(&output));

    let stats = ["rpcutil", "daemon_stats", "-I", "web1.acme.net"];
    let (document, _) = rpc.run_json(&stats).await;
    let refused = &document["replies"][0]["data"]["unvalidated"];
    assert_eq!(refused.as_u64(), Some(FLOOD as u64), "{document}");
    let count = |text: &str, word: &str| text.lines().filter(|line| line.contains(word)).count();
    let log = daemon.log();
    let lines = count(&log, "refused a message");
    assert!((1..20).contains(&lines), "{lines} lines for {FLOOD} messages:\n{log}");
    assert!(!log.contains('\u{1b}'), "a stranger steers the reader's terminal");
    let audit = std::fs::read_to_string(daemon.home().path("audit-refusals.log")).unwrap();
    let lines = count(&audit, "malformed");
    assert!((1..20).contains(&lines), "{lines} lines for {FLOOD} messages");
}
