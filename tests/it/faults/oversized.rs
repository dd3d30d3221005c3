//! Answers that are too large: for the node's limits, for the protocol's, and for a broker that takes less than either.

use std::sync::Arc;
use std::time::Duration;

use muster_client::{CallTarget, RpcCall};
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::Organisation;
use muster_wire::status::{ReplyReason, ReplyStatus};
use serde_json::{Value, json};

use super::Nodes;
use super::books::{Effects, ask};
use crate::ask::{TestCaller, to_object};

/// What this broker takes as one message.
const PAYLOAD: usize = 64 * 1024;

async fn fill(
    nodes: &Nodes,
    caller: &TestCaller,
    data: Value,
    stream: bool,
) -> (ReplyStatus, String, Option<ReplyReason>) {
    let mut call = RpcCall::new("ledger", "fill", CallTarget::Nodes(nodes.names())).unwrap();
    call.data = to_object(data);
    call.stream = stream;
    call.wait = Duration::from_secs(10);
    let entry = ask(&caller.client, call).await;
    let (stats, answers) = entry.told();
    assert!(stats.missing.is_empty(), "silence in place of words: {stats:?}");
    let reply = &answers.values().next().unwrap().reply;
    (reply.statuscode, reply.statusmsg.clone(), reply.reason.clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_asks_for_too_much_is_told_so_in_words() {
    let organisation = Organisation::new(&["muster"]);
    let usual = organisation.start_broker().await;
    let configuration = format!("{}max_payload: {PAYLOAD}\n", organisation.broker_configuration());
    let small = NatsServer::start(&configuration).await;
    let within = [json!({"bytes": 1_000}), json!({"bytes": 400_000})];
    let beyond = [json!({"bytes": 600_000}), json!({"bytes": 4_000_000})];
    for (server, fits) in [(&usual, within.as_slice()), (&small, &within[..1])] {
        let effects = Arc::<Effects>::default();
        let nodes = Nodes::start(&organisation, server, 0..1, &effects).await;
        let caller = TestCaller::connect(&organisation, server, organisation.caller("rip")).await;
        for stream in [false, true] {
            for data in fits {
                let (status, words, _) = fill(&nodes, &caller, data.clone(), stream).await;
                assert_eq!(status, ReplyStatus::Ok, "{data}: {words}");
            }
            let too_much = within.iter().chain(&beyond).filter(|data| !fits.contains(data));
            for data in too_much {
                let (status, words, reason) = fill(&nodes, &caller, data.clone(), stream).await;
                assert_eq!(status, ReplyStatus::Other, "{data}: {words}");
                assert!(matches!(reason, Some(ReplyReason::Oversized { .. })), "{data}: {words}");
                assert!(words.contains("bytes"), "{words}");
            }
        }
        assert!(nodes.cores().all(|core| core.snapshot_counters().replies >= 8));
    }
}
