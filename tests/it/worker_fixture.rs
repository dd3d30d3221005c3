//! A fleet with an agent that changes nothing, counts its calls and can be blocked; and a caller's `rpc`.

#![expect(clippy::indexing_slicing, reason = "documents are indexed; tests end by panic")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use muster_api::{ActionError, Agent, CallContext};
use muster_tests::command::RpcCommand;
use muster_tests::fleet::{NodeSetup, TestNode};
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::Organisation;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

/// Counts the calls of each node, and blocks the calls of one node.
#[derive(Default)]
pub(crate) struct WorkGate {
    call_counts: Mutex<BTreeMap<String, usize>>,
    blocked: Mutex<Option<(String, Arc<Semaphore>)>>,
    pub(crate) total: AtomicUsize,
}

/// An action that counts as a change but changes nothing; the gate may block it.
async fn run_counted(
    gate: Arc<WorkGate>,
    cx: CallContext,
    given: CountedInput,
) -> Result<CountedOutput, ActionError> {
    let node = cx.node.identity().to_string();
    *gate.call_counts.lock().unwrap().entry(node.clone()).or_default() += 1;
    gate.total.fetch_add(1, Ordering::Relaxed);
    if let Some(blocked) = gate.blocked(&node) {
        tokio::select! {
            // The semaphore is never closed.
            permit = blocked.acquire() => permit.unwrap().forget(),
            () = cx.cancel.cancelled() => return Err(ActionError::cancelled()),
        }
    }
    if given.what == format!("fail on {node}") {
        return Err(ActionError::failed("it did not work"));
    }
    let authorised = given.token.as_deref() == Some("s3cret");
    Ok(CountedOutput { done: given.what, authorised })
}

impl WorkGate {
    /// Blocks this node's calls from now on until permits are added to the semaphore.
    pub(crate) fn block(&self, node: &str) -> Arc<Semaphore> {
        let semaphore = Arc::new(Semaphore::new(0));
        *self.blocked.lock().unwrap() = Some((node.to_owned(), Arc::clone(&semaphore)));
        semaphore
    }

    pub(crate) fn call_count(&self, node: &str) -> usize {
        self.call_counts.lock().unwrap().get(node).copied().unwrap_or(0)
    }

    fn blocked(&self, node: &str) -> Option<Arc<Semaphore>> {
        let blocked = self.blocked.lock().unwrap();
        let (name, semaphore) = blocked.as_ref()?;
        (name == node).then(|| Arc::clone(semaphore))
    }
}

#[derive(Deserialize)]
struct CountedInput {
    what: String,
    token: Option<String>,
}

#[derive(Serialize)]
struct CountedOutput {
    done: String,
    authorised: bool,
}

pub(crate) fn schema() -> Value {
    let input = |optional: bool| json!({"prompt": "p", "description": "d", "type": "string", "validation": ".", "maxlength": 200, "optional": optional});
    let mut secret = input(true);
    secret["sensitive"] = json!(true);
    json!({
        "default_action": "do",
        "metadata": {"name": "work", "description": "d", "author": "a", "license": "l", "version": "1.0.0", "url": "u", "timeout": 600},
        "actions": [{"action": "do", "description": "d", "display": "always",
                     "input": {"what": input(false), "token": secret},
                     "output": {"done": {"description": "d", "display_as": "Done", "type": "string"},
                                "authorised": {"description": "d", "display_as": "Authorised", "type": "boolean"}}}],
    })
}

/// A fleet with the counted action, and a caller's `rpc`.
pub(crate) struct WorkerFixture {
    pub(crate) organisation: Organisation,
    pub(crate) server: NatsServer,
    pub(crate) nodes: Vec<TestNode>,
    pub(crate) gate: Arc<WorkGate>,
    pub(crate) rpc: RpcCommand,
}

impl WorkerFixture {
    pub(crate) async fn new(nodes: usize, more: &str) -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker().await;
        let gate = Arc::new(WorkGate::default());
        let mut running = Vec::new();
        for n in 1..=nodes {
            let mut setup = NodeSetup::new(organisation.node(&format!("n{n}")));
            setup.facts = json!({"number": n});
            let agent = Agent::builder(&schema().to_string()).unwrap();
            setup.agents = vec![agent.action("do", &gate, run_counted).build().unwrap()];
            running.push(TestNode::start(&organisation, &server, setup).await);
        }
        let rpc = RpcCommand::new(&server, &organisation, &organisation.caller("rip"), more);
        rpc.add_schema("work", &schema());
        Self { organisation, server, nodes: running, gate, rpc }
    }

    /// The details of the only job.
    pub(crate) async fn only_job(&self) -> Value {
        let (jobs, _) = self.rpc.run_json(&["job", "list"]).await;
        assert_eq!(jobs["jobs"].as_array().unwrap().len(), 1, "{jobs}");
        let id = jobs["jobs"][0]["id"].as_str().unwrap().to_owned();
        self.rpc.run_json(&["job", "show", &id]).await.0
    }
}

pub(crate) fn senders(document: &Value) -> Vec<&str> {
    let replies = document["replies"].as_array().unwrap();
    let mut senders: Vec<_> = replies.iter().map(|one| one["sender"].as_str().unwrap()).collect();
    senders.sort_unstable();
    senders
}
