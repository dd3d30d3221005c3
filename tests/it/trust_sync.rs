//! Nodes and callers read the newest account token when they connect, so that revocations reach those that were
//! disconnected.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use muster_api::{HealthFinding, NodeHandle as _};
use muster_calls::{Client, DiscoveryWindow};
use muster_node::ground::clock::WallClock;
use muster_tests::fleet::{NodeSetup, TestNode};
use muster_tests::organisation::{Organisation, connect};
use muster_tests::rpcd::{DaemonHome, Rpcd};
use muster_tests::{await_state, now};
use muster_wire::request::Request;
use muster_wire::status::{ReplyReason, ReplyStatus};
use muster_wire::token::AccountTrust;
use muster_wire::token::head::AccountHead;

use crate::enrolled_names::await_log;
use crate::node_fixture::{NodeFixture, TestCaller};

#[tokio::test]
async fn reconnected_node_applies_revocations_before_it_serves() {
    let NodeFixture { mut organisation, server, node, caller } =
        NodeFixture::with_stores(|_| {}).await;
    assert_eq!(caller.send(&caller.ping_request()).await.statuscode, ReplyStatus::Ok);
    let signer = node.core.trust.signer.clone();
    let directory = node.stop_and_wait().await;
    // The broker does not get the revocation, so only the node can refuse.
    let before = organisation.account_token();
    let token = organisation.revoke_user(&caller.signer);
    organisation.publish_account(&server, &token).await;
    let setup = NodeSetup { account: Some(before.clone()), ..NodeSetup::new(signer) };
    let node = TestNode::start_in(directory, &organisation, &server, setup).await;
    assert_eq!(node.core.trust.account.get().account_token(), token);
    let request = caller.ping_request();
    let envelope = caller.sign_request(&request);
    let subject = TestCaller::request_subject(&request);
    caller.bus.publish(&subject, envelope).await.unwrap();
    await_state("the request is refused", || {
        node.audit_records().iter().any(|record| record["reason"] == "revoked")
    })
    .await;

    // An older account token does not undo the revocation.
    organisation.publish_account(&server, &before).await;
    let later = organisation.revoke_user(&organisation.caller("anna"));
    organisation.publish_account(&server, &later).await;
    await_state("the node applies the newest token", || {
        node.core.trust.account.get().account_token() == later
    })
    .await;
}

/// The bucket has lost the newest token, and with it a revocation: neither a running node nor one that is restarted goes back, and both say so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_keeps_its_newer_token_if_the_bucket_has_lost_it() {
    let mut organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker_with_stores().await;
    let before = organisation.account_token();
    let node = organisation.node("web1.example.com");
    // Checks every three seconds.
    let home =
        DaemonHome::new(&organisation, &node, &server.url(), "[trust]\nmax_age_seconds = 60\n");
    let caller = TestCaller::connect(&organisation, &server, organisation.caller("rip")).await;
    organisation.publish_account(&server, &before).await;
    let mut first = home.clone().start();
    await_log(&mut first, "ready identity=").await;
    // The broker does not get the revocation, so only the node can refuse.
    let token = organisation.revoke_user(&caller.signer);
    organisation.publish_account(&server, &token).await;
    await_log(&mut first, "account token updated").await;

    organisation.publish_account(&server, &before).await;
    await_log(&mut first, "the broker has lost the newest account token").await;
    assert!(first.log().contains("rpc org push"), "{}", first.log());
    let assert_refused = async |daemon: &mut Rpcd| {
        let request = caller.ping_request();
        let envelope = caller.sign_request(&request);
        caller.bus.publish(&TestCaller::request_subject(&request), envelope).await.unwrap();
        await_log(daemon, "the token of rip was revoked").await;
        let audit = std::fs::read_to_string(home.path("audit.log")).unwrap_or_default();
        assert!(!audit.contains("executed"), "{audit}");
    };
    assert_refused(&mut first).await;
    drop(first);

    let mut again = home.clone().start();
    await_log(&mut again, "ready identity=").await;
    assert!(
        again.log().contains("the broker has lost the newest account token"),
        "{}",
        again.log()
    );
    assert_refused(&mut again).await;
}

/// In a cluster any server answers reads, and one that lags behind the announcement answers with the previous head.
#[tokio::test]
async fn node_reads_again_if_a_server_lags_behind_the_announcement() {
    let NodeFixture { mut organisation, server, node, caller } =
        NodeFixture::with_stores(|_| {}).await;
    assert_eq!(caller.send(&caller.ping_request()).await.statuscode, ReplyStatus::Ok);
    let (spy, mut everything) = organisation.subscribe_all(&server).await;
    // Only this test announces: the bucket does not republish its changes.
    let administrator = connect(&server, &organisation.administrator()).await;
    let info = administrator.request("$JS.API.STREAM.INFO.KV_TRUST", "".into()).await.unwrap();
    let mut info: serde_json::Value = serde_json::from_slice(info.payload()).unwrap();
    let mut config = info.get_mut("config").unwrap().take();
    config.as_object_mut().unwrap().remove("republish").unwrap();
    let update = serde_json::to_vec(&config).unwrap().into();
    let updated = administrator.request("$JS.API.STREAM.UPDATE.KV_TRUST", update).await.unwrap();
    assert!(!String::from_utf8_lossy(updated.payload()).contains("\"error\""), "{updated:?}");

    organisation.publish_account(&server, &organisation.account_token()).await;
    let token = organisation.revoke_user(&caller.signer);
    let operator = organisation.trust().operator_key();
    let head = AccountHead::of_trust(&AccountTrust::new(operator, &token).unwrap());
    spy.publish("_W.TRUST.head", head.to_json().unwrap().into()).await.unwrap();
    let mut is_announced = false;
    loop {
        let message = everything.next().await.unwrap();
        is_announced |= message.subject() == "_W.TRUST.head";
        if is_announced && message.subject() == "$JS.API.DIRECT.GET.KV_TRUST.$KV.TRUST.head" {
            break;
        }
    }
    // The broker answers in order, so the node has its answer.
    spy.request("$JS.API.INFO", "".into()).await.unwrap();
    assert_ne!(node.core.trust.account.get().account_token(), token);
    organisation.publish_account(&server, &token).await;
    await_state("the node applies the announced token", || {
        node.core.trust.account.get().account_token() == token
    })
    .await;
}

#[tokio::test]
async fn caller_applies_revocations_before_it_sends() {
    let NodeFixture { mut organisation, server, .. } = NodeFixture::with_stores(|_| {}).await;
    let trust = organisation.trust();
    let token = organisation.revoke_user(&organisation.node("gone.example.net"));
    organisation.publish_account(&server, &token).await;
    let signer = organisation.caller("anna");
    let bus = connect(&server, &signer).await;
    let collective = organisation.collective().clone();
    let client = Client::new(bus, signer, trust, collective, DiscoveryWindow::default());
    assert!(client.refresh_trust().await.unwrap());
    assert_eq!(client.trust().account_token(), token);
    assert!(!client.refresh_trust().await.unwrap());
}

/// Without a trust bucket the token cannot be confirmed: a node serves by default, and refuses if it is configured to.
#[tokio::test]
async fn unconfirmed_account_token_expires_after_the_configured_age() {
    const OFFSET_MILLIS: u64 = 2 * 60 * 60 * 1000;
    let offset = Arc::new(AtomicU64::new(0));
    let NodeFixture { node, caller, .. } = &NodeFixture::new(|setup| {
        let offset = Arc::clone(&offset);
        setup.clock = WallClock::new(move || now() + offset.load(Ordering::Acquire));
    })
    .await;
    offset.store(OFFSET_MILLIS, Ordering::Release);
    let request = || Request { issued_at: now() + OFFSET_MILLIS, ..caller.ping_request() };
    assert_eq!(caller.send(&request()).await.statuscode, ReplyStatus::Ok);
    let findings = node.core.collect_findings();
    let is_reported = |finding: &HealthFinding| {
        finding.check == "trust" && finding.message.contains("rpc org push")
    };
    assert!(findings.iter().any(is_reported), "{findings:?}");
    let freshness = &node.core.trust.freshness;
    freshness.set_max_age(Some(Duration::from_hours(1)));
    let reply = caller.send(&request()).await;
    assert!(matches!(reply.reason, Some(ReplyReason::Expired { .. })), "{reply:?}");
    assert!(reply.statusmsg.raw().contains("trust.max_age_seconds"), "{reply:?}");
}

/// The time of the last confirmation is kept across restarts: restarting or disconnecting a daemon does not extend the
/// age.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restart_does_not_reset_the_age_of_the_account_token() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker().await;
    let config = "[trust]\nmax_age_seconds = 3600\n";
    let node = organisation.node("web1.example.com");
    let home = DaemonHome::new(&organisation, &node, &server.url(), config);
    let caller = TestCaller::connect(&organisation, &server, organisation.caller("rip")).await;
    let mut first = home.clone().start();
    await_log(&mut first, "ready identity=").await;
    assert_eq!(caller.send(&caller.ping_request()).await.statuscode, ReplyStatus::Ok);
    drop(first);
    home.write("state/account.confirmed", "", 0o644);
    let confirmed =
        std::fs::File::options().append(true).open(home.path("state/account.confirmed")).unwrap();
    let before = std::time::SystemTime::now() - Duration::from_hours(2);
    confirmed.set_modified(before).unwrap();
    let mut again = home.start();
    await_log(&mut again, "ready identity=").await;
    let reply = caller.send(&caller.ping_request()).await;
    assert!(matches!(reply.reason, Some(ReplyReason::Expired { .. })), "{reply:?}");
}
