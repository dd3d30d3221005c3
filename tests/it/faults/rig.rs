//! A real `rpcd` with an external agent that writes down each request that it carries out, and a caller whose messages are captured.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use muster_bus::Bytes;
use muster_client::{CallTarget, Client, RpcCall};
use muster_tests::fault_proxy::{CapturedMessage, FaultProxy};
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::Organisation;
use muster_tests::poll_until_ok;
use muster_tests::rpcd::{DaemonHome, Rpcd};
use muster_wire::identity::Identity;
use muster_wire::sign::Signer;
use serde_json::{Value, json};
use uuid::Uuid;

use super::books::{Entry, ask};
use super::{BACK, ready};
use crate::ask::TestCaller;

pub(super) const NODE: &str = "node1.example.net";

/// Writes the request's id down, in one write; `hold` then waits as long as there is a file of that name.
const TALLY: &str = r#"#!/bin/sh
here=$(dirname "$0")/..
if [ "$CHORIA_EXTERNAL_PROTOCOL" = io.choria.mcorpc.external.v1.activation_request ]; then
    echo '{"activate": true}' > "$CHORIA_EXTERNAL_REPLY"
    exit
fi
id=$(sed -n 's/.*"requestid":"\([0-9a-f]*\)".*/\1/p' "$1")
echo "$id" >> "$here/effects"
case $(cat "$1") in *'"action":"hold"'*) while test -e "$here/hold"; do sleep 0.02; done ;; esac
echo '{"data": {"said": "done"}}' > "$CHORIA_EXTERNAL_REPLY"
"#;

fn ddl() -> Value {
    let action = |name: &str| {
        json!({"action": name, "description": "d", "input": {},
               "output": {"said": {"description": "d", "display_as": "Said", "type": "string"}}})
    };
    json!({"metadata": {"name": "tally", "description": "d", "author": "a", "license": "l", "version": "1.0.0",
                        "url": "u", "timeout": 60, "provider": "external"},
           "actions": [action("strike"), action("hold"), action("guarded")]})
}

pub(super) struct Rig {
    pub(super) organisation: Organisation,
    pub(super) server: NatsServer,
    pub(super) signer: Signer,
    pub(super) home: DaemonHome,
    pub(super) caller: TestCaller,
    /// Somebody else, through whom captured messages come again, and who asks how the node is.
    pub(super) other: TestCaller,
    captured: Arc<Mutex<Vec<CapturedMessage>>>,
    _proxy: FaultProxy,
}

impl Rig {
    /// A node that is not started yet; `more` is its configuration.
    pub(super) async fn new(more: &str) -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker().await;
        let signer = organisation.node(NODE);
        let more = format!("{more}\n[log]\nformat = \"json\"\n");
        let home = DaemonHome::new(&organisation, &signer, &server.url(), &more);
        // It writes into directories of root's.
        let user = "[plugins.external.agents.tally]\nuser = \"root\"\n";
        home.write("conf.d/tally.toml", user, 0o644);
        home.write("ddl/tally.json", &ddl().to_string(), 0o644);
        home.write("ddl/tally", TALLY, 0o755);
        home.write("effects", "", 0o644);
        let (proxy, mut published) = FaultProxy::start_tapped(&server).await;
        let caller = TestCaller::connect(&organisation, &proxy, organisation.caller("rip")).await;
        let other = TestCaller::connect(&organisation, &server, organisation.caller("eve")).await;
        let captured = Arc::<Mutex<Vec<CapturedMessage>>>::default();
        let kept = Arc::clone(&captured);
        tokio::spawn(async move {
            while let Some(message) = published.recv().await {
                kept.lock().unwrap().push(message);
            }
        });
        Self { organisation, server, signer, home, caller, other, captured, _proxy: proxy }
    }

    /// Starts the daemon, and waits until it is ready.
    pub(super) async fn start(&self) -> Rpcd {
        let mut node = self.home.clone().start();
        ready(&mut node, 1).await;
        node
    }

    /// How often each request was carried out, by what is written down.
    pub(super) fn effects(&self) -> HashMap<Uuid, u32> {
        let text = std::fs::read_to_string(self.home.path("effects")).unwrap();
        let mut effects = HashMap::new();
        for line in text.lines() {
            *effects.entry(Uuid::parse_str(line).unwrap()).or_default() += 1;
        }
        effects
    }

    /// Asks the node for an action of the tally.
    pub(super) async fn ask(&self, action: &str, wait: Duration) -> Entry {
        ask_of(&self.caller.client, action, wait).await
    }

    /// Every request that the caller has sent through the bus so far, in order.
    pub(super) fn captured(&self) -> Vec<CapturedMessage> {
        let all = self.captured.lock().unwrap();
        let is_request = |sent: &&CapturedMessage| {
            sent.subject.starts_with("muster.") && !sent.payload.is_empty()
        };
        all.iter().filter(is_request).cloned().collect()
    }

    /// Sends captured messages again.
    pub(super) async fn replay(&self, messages: &[CapturedMessage]) {
        for message in messages {
            let payload = Bytes::from(message.payload.clone());
            let reply_to = message.reply_to.as_deref().unwrap();
            let sent = self.other.bus.publish_with_reply(&message.subject, reply_to, payload);
            sent.await.unwrap();
        }
    }

    /// One of the daemon's own figures.
    pub(super) async fn counted(&self, what: &str) -> u64 {
        let answer = self.other.call_action(NODE, "rpcutil", "daemon_stats", json!({})).await;
        let data = answer.reply.data;
        data.get(what).and_then(Value::as_u64).unwrap()
    }

    /// Waits until one of the daemon's figures is this. What is for everybody is taken from another subscription than the question for
    /// the figure, which may overtake it.
    pub(super) async fn await_counted(&self, what: &str, wanted: u64) {
        poll_until_ok(&format!("{what} is {wanted}"), BACK, async || {
            match self.counted(what).await {
                counted if counted == wanted => Ok(()),
                counted => Err(counted),
            }
        })
        .await;
    }

    /// Waits until nothing is at work on the node.
    pub(super) async fn await_idle(&self) {
        poll_until_ok("nothing is at work", BACK, async || match self.at_work().await {
            0 => Ok(()),
            busy => Err(busy),
        })
        .await;
    }

    /// How many requests are at work on the node, or wait.
    pub(super) async fn at_work(&self) -> u64 {
        let answer = self.other.call_action(NODE, "rpcutil", "running", json!({})).await;
        let data = answer.reply.data;
        data.get("count").and_then(Value::as_u64).unwrap()
    }
}

/// Asks the node for an action of the tally, as this client.
pub(super) async fn ask_of(client: &Client, action: &str, wait: Duration) -> Entry {
    let node = Identity::parse(NODE).unwrap();
    let mut call = RpcCall::new("tally", action, CallTarget::Nodes([node].into())).unwrap();
    call.wait = wait;
    call.timeout = Some(Duration::from_secs(30));
    ask(client, call).await
}
