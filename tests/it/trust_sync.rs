//! Nodes and callers read the newest account token when they connect: revocations reach those that were away.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use muster_agent::clock::WallClock;
use muster_api::{HealthFinding, NodeHandle as _};
use muster_client::{Client, DiscoveryWindow};
use muster_tests::fleet::{Blueprint, TestNode};
use muster_tests::organisation::{Organisation, connect};
use muster_tests::rpcd::Home;
use muster_tests::{await_state, now};
use muster_wire::request::Request;
use muster_wire::status::{ReplyReason, ReplyStatus};

use crate::ask::{Caller, World};
use crate::enrolled_names::await_log;

#[tokio::test]
async fn a_node_that_was_away_knows_a_revocation_before_it_serves() {
    let World { mut organisation, server, node, caller } = World::storing(|_| {}).await;
    assert_eq!(caller.send(&caller.request()).await.statuscode, ReplyStatus::Ok);
    let signer = node.core.signer.clone();
    let directory = node.stopped().await;
    // The broker itself is not told, so that only the node can refuse.
    let before = organisation.account_token();
    let token = organisation.revoke(&caller.signer);
    organisation.publish_account(&server, &token).await;
    let back = Blueprint { account: Some(before.clone()), ..Blueprint::new(signer) };
    let node = TestNode::start_in(directory, &organisation, &server, back).await;
    assert_eq!(node.core.trust.get().account_token(), token);
    let request = caller.request();
    let sealed = caller.seal(&request);
    let subject = Caller::subject(&request);
    caller.bus.publish(&subject, sealed).await.unwrap();
    await_state("the request is refused", || {
        node.audit().iter().any(|record| record["reason"] == "revoked")
    })
    .await;

    // A recorded older token undoes nothing.
    organisation.publish_account(&server, &before).await;
    let later = organisation.revoke(&organisation.caller("anna"));
    organisation.publish_account(&server, &later).await;
    await_state("the node takes over the newest token", || {
        node.core.trust.get().account_token() == later
    })
    .await;
}

#[tokio::test]
async fn a_caller_knows_a_revocation_before_it_asks() {
    let World { mut organisation, server, .. } = World::storing(|_| {}).await;
    let trust = organisation.trust();
    let token = organisation.revoke(&organisation.node("gone.example.net"));
    organisation.publish_account(&server, &token).await;
    let signer = organisation.caller("anna");
    let bus = connect(&server, &signer).await;
    let collective = organisation.collective().clone();
    let client = Client::new(bus, signer, trust, collective, DiscoveryWindow::default());
    assert!(client.refresh_trust().await.unwrap());
    assert_eq!(client.trust().account_token(), token);
    assert!(!client.refresh_trust().await.unwrap());
}

/// Without a bucket nothing can be confirmed: a node serves by default, and refuses when it is configured to.
#[tokio::test]
async fn a_node_that_cannot_learn_the_newest_token_refuses_after_the_configured_time() {
    const AHEAD: u64 = 2 * 60 * 60 * 1000;
    let ahead = Arc::new(AtomicU64::new(0));
    let World { node, caller, .. } = &World::new(|blueprint| {
        let ahead = Arc::clone(&ahead);
        blueprint.clock = WallClock::new(move || now() + ahead.load(Ordering::Acquire));
    })
    .await;
    ahead.store(AHEAD, Ordering::Release);
    let request = || Request { issued_at: now() + AHEAD, ..caller.request() };
    assert_eq!(caller.send(&request()).await.statuscode, ReplyStatus::Ok);
    let findings = node.core.collect_findings();
    let is_reported = |finding: &HealthFinding| {
        finding.check == "trust" && finding.message.contains("rpc org push")
    };
    assert!(findings.iter().any(is_reported), "{findings:?}");
    let freshness = &node.core.freshness;
    freshness.set_max_age(Some(Duration::from_hours(1)));
    let reply = caller.send(&request()).await;
    assert!(matches!(reply.reason, Some(ReplyReason::Expired { .. })), "{reply:?}");
    assert!(reply.statusmsg.contains("trust.max_age_seconds"), "{reply:?}");
}

/// What was confirmed last before a restart counts: who can restart a daemon, or cut it off, gains no time by that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_makes_no_token_fresher() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.broker().await;
    let config = "[trust]\nmax_age_seconds = 3600\n";
    let node = organisation.node("web1.example.com");
    let home = Home::new(&organisation, &node, &server.url(), config);
    let caller = Caller::connect(&organisation, &server, organisation.caller("rip")).await;
    let mut fresh = home.clone().start();
    await_log(&mut fresh, "ready identity=").await;
    assert_eq!(caller.send(&caller.request()).await.statuscode, ReplyStatus::Ok);
    drop(fresh);
    home.write("state/account.confirmed", "", 0o644);
    let confirmed =
        std::fs::File::options().append(true).open(home.path("state/account.confirmed")).unwrap();
    let before = std::time::SystemTime::now() - Duration::from_hours(2);
    confirmed.set_modified(before).unwrap();
    let mut again = home.start();
    await_log(&mut again, "ready identity=").await;
    let reply = caller.send(&caller.request()).await;
    assert!(matches!(reply.reason, Some(ReplyReason::Expired { .. })), "{reply:?}");
}
