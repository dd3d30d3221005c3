//! Two books that must agree: what nodes did, written by the agent `ledger` on each, and what callers were told of it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use muster_api::{ActionError, Agent, CallContext, EmptyInput, NoState};
use muster_client::{CallEvent, CallStats, CallTarget, Client, ReceivedReply, RpcCall};
use muster_wire::identity::Identity;
use muster_wire::status::ReplyStatus;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::timeout;
use uuid::Uuid;

/// How much longer than it is willing to wait a call may take before it hangs.
const HANGS: Duration = Duration::from_secs(40);

/// How often each request was carried out on each node.
#[derive(Debug, Default)]
pub(super) struct Effects(Mutex<HashMap<(Identity, Uuid), u32>>);

impl Effects {
    fn note(&self, node: Identity, request: Uuid) {
        *self.0.lock().unwrap().entry((node, request)).or_default() += 1;
    }

    /// How often this one was, on this node.
    pub(super) fn of(&self, node: &Identity, request: Uuid) -> u32 {
        let effects = self.0.lock().unwrap();
        effects.get(&(node.clone(), request)).copied().unwrap_or(0)
    }

    /// How many there were in all.
    pub(super) fn total(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

#[derive(Deserialize)]
struct Size {
    bytes: usize,
}

#[derive(Serialize)]
struct Said {
    said: String,
}

/// Changes the node, in that it is written down.
async fn strike(
    effects: Arc<Effects>,
    cx: CallContext,
    _: EmptyInput,
) -> Result<Said, ActionError> {
    tokio::task::yield_now().await;
    effects.note(cx.node.identity().clone(), cx.request);
    let said = "done".to_owned();
    Ok(Said { said })
}

/// Answers with as many bytes as were asked for.
async fn fill(_: NoState, cx: CallContext, input: Size) -> Result<Said, ActionError> {
    tokio::task::yield_now().await;
    let said = "x".repeat(input.bytes);
    cx.emit_event(json!({ "said": said }));
    Ok(Said { said })
}

fn ddl() -> Value {
    let output = json!({"said": {"description": "d", "display_as": "Said", "type": "string"}});
    let bytes =
        json!({"prompt": "Bytes", "description": "d", "type": "integer", "optional": false});
    json!({
        "metadata": {"name": "ledger", "description": "d", "author": "a", "license": "l",
                     "version": "1.0.0", "url": "u", "timeout": 20},
        "actions": [
            {"action": "strike", "description": "d", "display": "always", "input": {}, "output": output},
            {"action": "fill", "description": "d", "display": "always", "read_only": true,
             "input": {"bytes": bytes}, "output": output},
        ],
    })
}

/// The agent.
pub(super) fn agent(effects: &Arc<Effects>) -> Agent {
    Agent::builder(&ddl().to_string())
        .unwrap()
        .action("strike", effects, strike)
        .action("fill", &NoState, fill)
        .build()
        .unwrap()
}

/// What a caller was told of one call.
pub(super) struct Entry {
    pub(super) asked: BTreeSet<Identity>,
    pub(super) fate: Fate,
}

pub(super) enum Fate {
    /// It came to its end.
    Told { stats: Box<CallStats>, answers: BTreeMap<Identity, ReceivedReply> },
    /// It could not be made, or broke off, for this reason.
    Failed(String),
}

impl Entry {
    /// The balance and the answers; that a call fails is a failure of a test that looks at it.
    pub(super) fn told(&self) -> (&CallStats, &BTreeMap<Identity, ReceivedReply>) {
        match &self.fate {
            Fate::Told { stats, answers } => (stats, answers),
            Fate::Failed(error) => panic!("the call failed: {error}"),
        }
    }

    /// Whether everybody has answered that the work is done.
    pub(super) fn is_done(&self) -> bool {
        matches!(&self.fate, Fate::Told { stats, .. } if stats.ok == self.asked.len())
    }
}

/// Makes a call of named nodes, and writes down what it came to. It must come to something.
pub(super) async fn ask(client: &Client, call: RpcCall) -> Entry {
    let CallTarget::Nodes(asked) = call.target.clone() else {
        panic!("the books are kept by name");
    };
    let patience = call.wait + HANGS;
    let mut events = client.call(call);
    let mut answers = BTreeMap::new();
    let listening = async {
        loop {
            match events.next().await.unwrap() {
                CallEvent::Reply(answer) => {
                    let node = answer.reply.sender.clone();
                    assert!(
                        answers.insert(node, *answer).is_none(),
                        "a node's answer was counted twice"
                    );
                }
                CallEvent::Finished(stats) => return Fate::Told { stats, answers },
                CallEvent::Failed(error) => return Fate::Failed(error.to_string()),
                _ => {}
            }
        }
    };
    let Ok(fate) = timeout(patience, listening).await else {
        panic!("a call neither ends nor fails within {patience:?}");
    };
    Entry { asked, fate }
}

/// What the books say together.
#[derive(Debug, Default)]
pub(super) struct Balance {
    pub(super) answered: usize,
    pub(super) missing: usize,
    pub(super) failed: usize,
}

/// Compares the books of strikes, and ends the test if they do not agree.
pub(super) fn compare(entries: &[Entry], effects: &Effects) -> Balance {
    let mut balance = Balance::default();
    let mut known = BTreeSet::new();
    for entry in entries {
        let Fate::Told { stats, answers } = &entry.fate else {
            balance.failed += 1;
            continue;
        };
        known.insert(stats.request);
        balance.answered += answers.len();
        balance.missing += stats.missing.len();
        assert_eq!(stats.ok + stats.failed, answers.len(), "{stats:?}");
        let heard: BTreeSet<Identity> = answers.keys().cloned().collect();
        assert!(heard.is_disjoint(&stats.missing), "{stats:?}");
        let told = &heard | &stats.missing;
        assert_eq!(told, entry.asked, "not everybody was told of: {stats:?}");
        for node in &entry.asked {
            let times = effects.of(node, stats.request);
            let answer = answers.get(node).map(|answer| &answer.reply);
            let right = match answer.map(|reply| reply.statuscode) {
                Some(ReplyStatus::Ok) => times == 1,
                Some(_) => times == 0,
                None => times <= 1,
            };
            assert!(right, "{node} did it {times} times, and said {answer:?}");
        }
    }
    let mut unknown = BTreeSet::new();
    for ((node, request), times) in &*effects.0.lock().unwrap() {
        assert_eq!(*times, 1, "{node} did {request} {times} times");
        if !known.contains(request) {
            unknown.insert(*request);
        }
    }
    // Who was told that a call failed was not told its number.
    assert!(
        unknown.len() <= balance.failed,
        "{} requests were carried out that nobody was told of",
        unknown.len()
    );
    balance
}
