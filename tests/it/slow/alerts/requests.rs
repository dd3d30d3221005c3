//! Alerts about the requests that a node receives: forged, replayed, denied, and more than its queues hold.

use muster_tests::organisation::connect;
use serde_json::json;

use super::nodes::AlertFleet;
use crate::long::faults::fixture::install_tally_agent;
use crate::monitoring::agent_request;
use crate::node_fixture::TestCaller;

/// More than the ten of the rule.
const FORGED_MESSAGES: usize = 15;
/// More than the fifty of the rule.
const DENIED_REQUESTS: usize = 60;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_replayed_and_denied_requests_fire() {
    let Some(mut fleet) = AlertFleet::start().await else { return };
    let home = fleet.home("web1", "");
    home.write("policies/service.policy", "policy default deny\n", 0o644);
    let _node = fleet.start_node("web1", home).await;
    let caller = fleet.connect_caller().await;
    for alert in ["MusterForgedMessages", "MusterReplayedRequest", "MusterManyDenials"] {
        fleet.watch.assert_silent(alert, "web1").await;
    }

    // One replay is enough: a series that began with it would have no increase.
    let ping = caller.ping_request();
    caller.send(&ping).await;
    let subject = TestCaller::request_subject(&ping);
    // The first repetition gets the reply again.
    for _ in 0..2 {
        caller.count_replies(&subject, caller.sign_request(&ping)).await;
    }
    fleet.watch.await_firing("MusterReplayedRequest", "web1").await;

    let attacker = fleet.organisation.unrestricted_user("attacker");
    let bus = connect(&fleet.server, &attacker).await;
    for _ in 0..FORGED_MESSAGES {
        bus.publish(&subject, "forged".into()).await.unwrap();
    }
    bus.flush().await.unwrap();
    fleet.watch.await_firing("MusterForgedMessages", "web1").await;

    for _ in 0..DENIED_REQUESTS {
        caller.call_action("web1", "service", "status", json!({"service": "cron"})).await;
    }
    fleet.watch.await_firing("MusterManyDenials", "web1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_queue_of_an_agent_fires() {
    let Some(mut fleet) = AlertFleet::start().await else { return };
    let home = fleet.home("web1", "[limits.agents.tally]\nconcurrency = 1\nqueue = 1\n");
    install_tally_agent(&home);
    home.write("hold", "", 0o644);
    let node = fleet.start_node("web1", home).await;
    let caller = fleet.connect_caller().await;
    fleet.watch.assert_silent("MusterBusy", "web1").await;
    // One runs until the file `hold` is removed, and the other one waits.
    for _ in 0..2 {
        let request = agent_request(&caller, "tally", "hold");
        let (inbox, _) = caller.subscribe_inbox(&request).await;
        let (subject, message) =
            (TestCaller::request_subject(&request), caller.sign_request(&request));
        caller.bus.publish_with_reply(&subject, &inbox, message).await.unwrap();
    }
    fleet.watch.await_firing("MusterBusy", "web1").await;
    std::fs::remove_file(node.home().path("hold")).unwrap();
}
