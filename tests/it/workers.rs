//! A fleet whose action changes nothing, counts how often it began, and may be held up; with a desk from which it is asked.

#![expect(clippy::indexing_slicing, reason = "documents are indexed; tests end by panic")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use muster_api::{ActionError, Agent, CallContext};
use muster_tests::command::Command;
use muster_tests::fleet::{Blueprint, TestNode};
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::Organisation;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

/// Which node has begun how often, and who may not end yet.
#[derive(Default)]
pub(crate) struct Gate {
    begun: Mutex<BTreeMap<String, usize>>,
    held: Mutex<Option<(String, Arc<Semaphore>)>>,
    pub(crate) total: AtomicUsize,
}

impl Gate {
    /// From now on this node's actions wait for the semaphore.
    pub(crate) fn hold(&self, node: &str) -> Arc<Semaphore> {
        let semaphore = Arc::new(Semaphore::new(0));
        *self.held.lock().unwrap() = Some((node.to_owned(), Arc::clone(&semaphore)));
        semaphore
    }

    pub(crate) fn begun(&self, node: &str) -> usize {
        self.begun.lock().unwrap().get(node).copied().unwrap_or(0)
    }

    fn held(&self, node: &str) -> Option<Arc<Semaphore>> {
        let held = self.held.lock().unwrap();
        let (name, semaphore) = held.as_ref()?;
        (name == node).then(|| Arc::clone(semaphore))
    }
}

#[derive(Deserialize)]
struct Given {
    what: String,
    token: Option<String>,
}

#[derive(Serialize)]
struct Done {
    done: String,
    authorised: bool,
}

/// Changes nothing but counts as a change; may be held up.
async fn work(gate: Arc<Gate>, cx: CallContext, given: Given) -> Result<Done, ActionError> {
    let node = cx.node.identity().to_string();
    *gate.begun.lock().unwrap().entry(node.clone()).or_default() += 1;
    gate.total.fetch_add(1, Ordering::Relaxed);
    if let Some(held) = gate.held(&node) {
        tokio::select! {
            // A semaphore is closed by nobody here.
            permit = held.acquire() => permit.unwrap().forget(),
            () = cx.cancel.cancelled() => return Err(ActionError::cancelled()),
        }
    }
    if given.what == format!("fail on {node}") {
        return Err(ActionError::failed("it did not work"));
    }
    let authorised = given.token.as_deref() == Some("s3cret");
    Ok(Done { done: given.what, authorised })
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

/// A fleet of workers, and a desk.
pub(crate) struct World {
    pub(crate) organisation: Organisation,
    pub(crate) server: NatsServer,
    pub(crate) nodes: Vec<TestNode>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) desk: Command,
}

impl World {
    pub(crate) async fn new(nodes: usize, more: &str) -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.broker().await;
        let gate = Arc::new(Gate::default());
        let mut running = Vec::new();
        for n in 1..=nodes {
            let mut blueprint = Blueprint::new(organisation.node(&format!("n{n}")));
            blueprint.facts = json!({"number": n});
            let agent = Agent::builder(&schema().to_string()).unwrap();
            blueprint.agents = vec![agent.action("do", &gate, work).build().unwrap()];
            running.push(TestNode::start(&organisation, &server, blueprint).await);
        }
        let desk = Command::new(&server, &organisation, &organisation.caller("rip"), more);
        desk.add_schema("work", &schema());
        Self { organisation, server, nodes: running, gate, desk }
    }

    /// The only job, in full.
    pub(crate) async fn job(&self) -> Value {
        let (jobs, _) = self.desk.document(&["job", "list"]).await;
        assert_eq!(jobs["jobs"].as_array().unwrap().len(), 1, "{jobs}");
        let id = jobs["jobs"][0]["id"].as_str().unwrap().to_owned();
        self.desk.document(&["job", "show", &id]).await.0
    }
}

pub(crate) fn senders(document: &Value) -> Vec<&str> {
    let replies = document["replies"].as_array().unwrap();
    let mut senders: Vec<_> = replies.iter().map(|one| one["sender"].as_str().unwrap()).collect();
    senders.sort_unstable();
    senders
}
