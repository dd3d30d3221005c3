//! Files of one version that the other one reads: the ledger of refreshes, the renewed token of a node, and the configuration.

use std::time::Duration;

use muster_tests::organisation::{Organisation, connect};
use muster_tests::poll_until_ok;
use muster_tests::program_version::ProgramVersion::{self, Earlier, Present};
use muster_tests::rpcd::DaemonHome;
use muster_wire::sign::Signer;
use muster_wire::token::{ServiceRight, UserCredentials, UserRole};
use serde_json::json;

use super::fixture::start_daemon;
use crate::node_fixture::TestCaller;
use crate::refreshes::{RefreshBlocker, RefreshFixture};
use crate::token_renewal::{issue_token, put_token};

/// A run of one version begins with the refreshes that a run of the other one still owes.
#[test]
fn owed_refresh_is_done_by_the_other_version() {
    for version in ProgramVersion::BOTH {
        let fixture = RefreshFixture::new(RefreshBlocker::Refresh);
        fixture.run_version(version, true);
        assert_eq!((fixture.pending_count(), fixture.run_counts()), (1, (0, 0)), "{version:?}");
        fixture.run_version(version.other(), false);
        assert_eq!((fixture.pending_count(), fixture.run_counts()), (0, (1, 1)), "{version:?}");
        fixture.run_version(version, false);
        assert_eq!(fixture.run_counts(), (1, 1), "{version:?}: repeated");
    }
}

const NODE: &str = "node1.example.net";
/// Age of the token with which the node begins. Its lifetime is 90 s.
const TOKEN_AGE_SECONDS: u64 = 75;

/// The earlier version connects with the renewed token that this one has stored, and this one again after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewed_token_is_used_by_the_other_version() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker_with_stores().await;
    let signer = organisation.node(NODE);
    let issue = |age| {
        let (name, key) = (signer.identity(), signer.public_key());
        issue_token(&organisation, UserRole::Node, name, key, age)
    };
    let expires = muster_tests::now() / 1000 + 90 - TOKEN_AGE_SECONDS;
    let first = UserCredentials::new(&issue(TOKEN_AGE_SECONDS), signer.key_pair().clone()).unwrap();
    let bus = connect(&server, &organisation.service(ServiceRight::Provision, "enroller")).await;
    put_token(&bus, signer.identity(), &issue(0)).await;
    let home = DaemonHome::new(&organisation, &Signer::new(first).unwrap(), &server.url(), "");
    let mut node = start_daemon(&home, Present).await;
    let stored = home.path("state/token.jwt");
    muster_tests::await_state("the renewed token is stored", || stored.exists()).await;
    node.stop_and_wait().await;
    poll_until_ok("the first token has expired", Duration::from_mins(1), async || {
        let left = expires.saturating_sub(muster_tests::now() / 1000);
        if left == 0 { Ok(()) } else { Err(left) }
    })
    .await;
    let caller = TestCaller::connect(&organisation, &server, organisation.caller("rip")).await;
    for version in [Earlier, Present] {
        let mut node = start_daemon(&home, version).await;
        let reply = caller.call_action(NODE, "rpcutil", "ping", json!({})).await;
        assert_eq!(reply.reply.sender, *signer.identity(), "{version:?}");
        node.stop_and_wait().await;
    }
}

/// A daemon of the earlier version ignores a key of this version, and names it in its log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn earlier_daemon_ignores_keys_of_this_version() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker().await;
    let more = "[audit]\nfail_closed_root = true\n[broker]\nfollow = true\n[registration]\nyield_to_older = true\n";
    let home = DaemonHome::new(&organisation, &organisation.node(NODE), &server.url(), more);
    let is_warned = |log: &str, key: &str| log.contains(&format!("unknown key `{key}` is ignored"));
    for version in [Present, Earlier] {
        let mut node = start_daemon(&home, version).await;
        for key in ["audit.fail_closed_root", "broker.follow", "registration.yield_to_older"] {
            assert_eq!(is_warned(&node.log(), key), version == Earlier, "{key}: {}", node.log());
        }
        node.stop_and_wait().await;
    }
}
