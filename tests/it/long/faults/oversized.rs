//! Replies that exceed the node's limit, the protocol's limit, or the limit of a broker with a smaller maximum.

use std::sync::Arc;
use std::time::Duration;

use muster_calls::{CallTarget, RpcCall};
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::Organisation;
use muster_wire::status::{ReplyReason, ReplyStatus};
use serde_json::{Value, json};

use super::LedgerNodes;
use super::call_records::{EffectLog, record_call};
use crate::node_fixture::{TestCaller, to_object};

/// The maximum payload of the small broker in bytes.
const MAX_PAYLOAD_BYTES: usize = 64 * 1024;

async fn call_fill(
    nodes: &LedgerNodes,
    caller: &TestCaller,
    data: Value,
    stream: bool,
) -> (ReplyStatus, String, Option<ReplyReason>) {
    let mut call = RpcCall::new("filler", "fill", CallTarget::Nodes(nodes.names())).unwrap();
    call.data = to_object(data);
    call.stream = stream;
    call.wait = Duration::from_secs(10);
    let entry = record_call(&caller.client, call).await;
    let (stats, answers) = entry.finished();
    assert!(stats.missing.is_empty(), "no reply instead of an error: {stats:?}");
    let reply = &answers.values().next().unwrap().reply;
    (reply.statuscode, reply.statusmsg.raw().to_owned(), reply.reason.clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oversized_replies_are_reported_with_a_reason() {
    let organisation = Organisation::new(&["muster"]);
    let default_broker = organisation.start_broker().await;
    let configuration =
        format!("{}max_payload: {MAX_PAYLOAD_BYTES}\n", organisation.broker_configuration());
    let small = NatsServer::start(&configuration).await;
    let within = [json!({"bytes": 1_000}), json!({"bytes": 400_000})];
    let beyond = [json!({"bytes": 600_000}), json!({"bytes": 4_000_000})];
    for (server, fits) in [(&default_broker, within.as_slice()), (&small, &within[..1])] {
        let effects = Arc::<EffectLog>::default();
        let nodes = LedgerNodes::start(&organisation, server, 0..1, &effects).await;
        let caller = TestCaller::connect(&organisation, server, organisation.caller("rip")).await;
        for stream in [false, true] {
            for data in fits {
                let (status, message, _) = call_fill(&nodes, &caller, data.clone(), stream).await;
                assert_eq!(status, ReplyStatus::Ok, "{data}: {message}");
            }
            let oversized = within.iter().chain(&beyond).filter(|data| !fits.contains(data));
            for data in oversized {
                let (status, message, reason) =
                    call_fill(&nodes, &caller, data.clone(), stream).await;
                assert_eq!(status, ReplyStatus::Other, "{data}: {message}");
                assert!(matches!(reason, Some(ReplyReason::Oversized { .. })), "{data}: {message}");
                assert!(message.contains("bytes"), "{message}");
            }
        }
        assert!(nodes.cores().all(|core| core.snapshot_counters().replies >= 8));
    }
}
