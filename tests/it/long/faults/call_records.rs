//! Records what nodes did, through the agent `ledger`, and what callers received, and checks that both agree.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use muster_api::{Agent, EmptyInput};
use muster_calls::{CallEvent, CallStats, CallTarget, Client, ReceivedReply, RpcCall};
use muster_wire::identity::Identity;
use muster_wire::status::ReplyStatus;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::timeout;
use uuid::Uuid;

/// How long a call may exceed its own wait before it counts as hanging.
const HANG_TIMEOUT: Duration = Duration::from_secs(40);

/// How often each request was executed on each node.
#[derive(Debug, Default)]
pub(super) struct EffectLog(Mutex<HashMap<(Identity, Uuid), u32>>);

impl EffectLog {
    fn record(&self, node: Identity, request: Uuid) {
        *self.0.lock().unwrap().entry((node, request)).or_default() += 1;
    }

    /// How often this request was executed on this node.
    pub(super) fn count(&self, node: &Identity, request: Uuid) -> u32 {
        let effects = self.0.lock().unwrap();
        effects.get(&(node.clone(), request)).copied().unwrap_or(0)
    }

    /// Number of executed requests.
    pub(super) fn total(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

#[derive(Serialize)]
struct TextOutput {
    said: String,
}

fn ddl() -> Value {
    let output = json!({"said": {"description": "d", "display_as": "Said", "type": "string"}});
    json!({
        "metadata": {"name": "ledger", "description": "d", "author": "a", "license": "l",
                     "version": "1.0.0", "url": "u", "timeout": 20},
        "actions": [
            {"action": "strike", "description": "d", "display": "always", "input": {}, "output": output},
        ],
    })
}

/// The agent `ledger`.
pub(super) fn ledger_agent(effects: &Arc<EffectLog>) -> Agent {
    Agent::builder(&ddl().to_string())
        .unwrap()
        // Records the effect of the call.
        .action("strike", effects, |effects: Arc<EffectLog>, cx, _: EmptyInput| async move {
            effects.record(cx.node.identity().clone(), cx.request);
            Ok(TextOutput { said: "done".to_owned() })
        })
        .build()
        .unwrap()
}

/// What a caller received for one call.
pub(crate) struct CallRecord {
    pub(crate) targets: BTreeSet<Identity>,
    pub(crate) result: CallResult,
}

pub(crate) enum CallResult {
    /// The call has finished.
    Finished { stats: Box<CallStats>, answers: BTreeMap<Identity, ReceivedReply> },
    /// The call could not be made, or failed, for this reason.
    Failed(String),
}

impl CallRecord {
    /// The statistics and the replies; fails the test if the call failed.
    pub(super) fn finished(&self) -> (&CallStats, &BTreeMap<Identity, ReceivedReply>) {
        match &self.result {
            CallResult::Finished { stats, answers } => (stats, answers),
            CallResult::Failed(error) => panic!("the call failed: {error}"),
        }
    }

    /// Whether all nodes replied that the work is done.
    pub(super) fn is_done(&self) -> bool {
        matches!(&self.result, CallResult::Finished { stats, .. } if stats.ok == self.targets.len())
    }
}

/// Calls named nodes and records the result. The call must finish or fail.
pub(crate) async fn record_call(client: &Client, call: RpcCall) -> CallRecord {
    let CallTarget::Nodes(targets) = call.target.clone() else {
        panic!("calls are recorded by node name");
    };
    let timeout_after = call.wait + HANG_TIMEOUT;
    let mut events = client.call(call);
    let mut answers = BTreeMap::new();
    let receiving = async {
        loop {
            match events.next().await.unwrap() {
                CallEvent::Reply(answer) => {
                    let node = answer.reply.sender.clone();
                    assert!(
                        answers.insert(node, *answer).is_none(),
                        "a node's reply was counted twice"
                    );
                }
                CallEvent::Finished(stats) => return CallResult::Finished { stats, answers },
                CallEvent::Failed(error) => return CallResult::Failed(error.to_string()),
                _ => {}
            }
        }
    };
    let Ok(result) = timeout(timeout_after, receiving).await else {
        panic!("a call neither ends nor fails within {timeout_after:?}");
    };
    CallRecord { targets, result }
}

/// Totals of the compared records.
#[derive(Debug, Default)]
pub(super) struct CallTotals {
    pub(super) answered: usize,
    pub(super) missing: usize,
    pub(super) failed: usize,
}

/// Compares the callers' records with the nodes'; fails the test if they disagree.
pub(super) fn verify_records(entries: &[CallRecord], effects: &EffectLog) -> CallTotals {
    let mut totals = CallTotals::default();
    let mut known_requests = BTreeSet::new();
    for entry in entries {
        let CallResult::Finished { stats, answers } = &entry.result else {
            totals.failed += 1;
            continue;
        };
        known_requests.insert(stats.request);
        totals.answered += answers.len();
        totals.missing += stats.missing.len();
        assert_eq!(stats.ok + stats.failed, answers.len(), "{stats:?}");
        let replied: BTreeSet<Identity> = answers.keys().cloned().collect();
        assert!(replied.is_disjoint(&stats.missing), "{stats:?}");
        let accounted = &replied | &stats.missing;
        assert_eq!(accounted, entry.targets, "not every node is accounted for: {stats:?}");
        for node in &entry.targets {
            let times = effects.count(node, stats.request);
            let answer = answers.get(node).map(|answer| &answer.reply);
            let is_consistent = match answer.map(|reply| reply.statuscode) {
                Some(ReplyStatus::Ok) => times == 1,
                Some(_) => times == 0,
                None => times <= 1,
            };
            assert!(is_consistent, "{node} executed it {times} times and replied {answer:?}");
        }
    }
    let mut unknown = BTreeSet::new();
    for ((node, request), times) in &*effects.0.lock().unwrap() {
        assert_eq!(*times, 1, "{node} executed {request} {times} times");
        if !known_requests.contains(request) {
            unknown.insert(*request);
        }
    }
    // A caller whose call failed does not know the request's id.
    assert!(
        unknown.len() <= totals.failed,
        "{} requests were executed that no caller knows of",
        unknown.len()
    );
    totals
}
