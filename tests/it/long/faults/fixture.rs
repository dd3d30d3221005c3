//! A fixture with a real `rpcd`, an external agent that records each executed request, and a caller whose messages are
//! captured.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use muster_bus::Bytes;
use muster_calls::{CallTarget, Client, RpcCall};
use muster_tests::fault_proxy::{CapturedMessage, FaultProxy};
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::Organisation;
use muster_tests::poll_until_ok;
use muster_tests::rpcd::{DaemonHome, Rpcd};
use muster_wire::identity::Identity;
use muster_wire::sign::Signer;
use serde_json::{Value, json};
use uuid::Uuid;

use super::call_records::{CallRecord, record_call};
use super::{RECOVERY_TIMEOUT, await_ready};
use crate::node_fixture::TestCaller;

pub(super) const NODE: &str = "node1.example.net";

/// Appends the request's id to a file with one write; `hold` then waits while the file `hold` exists.
const TALLY_AGENT: &str = r#"#!/bin/sh
here=$(dirname "$0")/..
if [ "$CHORIA_EXTERNAL_PROTOCOL" = io.choria.mcorpc.external.v1.activation_request ]; then
    echo '{"activate": true}' > "$CHORIA_EXTERNAL_REPLY"
    exit
fi
id=$(sed -n 's/.*"requestid":"\([0-9a-f]*\)".*/\1/p' "$1")
echo "$id" >> "$here/effects"
case $(cat "$1") in *'"action":"hold"'*) while test -e "$here/hold"; do sleep 0.02; done ;; esac
echo '{"statuscode": 0, "data": {"said": "done"}}' > "$CHORIA_EXTERNAL_REPLY"
"#;

/// The schema of the agent `tally`.
pub(crate) fn tally_ddl() -> Value {
    let action = |name: &str| {
        json!({"action": name, "description": "d", "input": {},
               "output": {"said": {"description": "d", "display_as": "Said", "type": "string"}}})
    };
    json!({"metadata": {"name": "tally", "description": "d", "author": "a", "license": "l", "version": "1.0.0",
                        "url": "u", "timeout": 60, "provider": "external"},
           "actions": [action("strike"), action("hold"), action("guarded")]})
}

/// Adds the agent `tally` to a node that is not started.
pub(crate) fn install_tally_agent(home: &DaemonHome) {
    // The agent writes to directories that belong to root.
    let user = "[plugins.external.agents.tally]\nuser = \"root\"\n";
    home.write("conf.d/tally.toml", user, 0o644);
    home.write("ddl/tally.json", &tally_ddl().to_string(), 0o644);
    home.write("ddl/tally", TALLY_AGENT, 0o755);
    home.write("effects", "", 0o644);
}

/// How often the agent `tally` of a node executed each request.
pub(crate) fn read_tally(home: &DaemonHome) -> HashMap<Uuid, u32> {
    let text = std::fs::read_to_string(home.path("effects")).unwrap();
    let mut effects = HashMap::new();
    for line in text.lines() {
        *effects.entry(Uuid::parse_str(line).unwrap()).or_default() += 1;
    }
    effects
}

pub(super) struct FaultFixture {
    pub(super) organisation: Organisation,
    pub(super) server: NatsServer,
    pub(super) signer: Signer,
    pub(super) home: DaemonHome,
    pub(super) caller: TestCaller,
    /// Another caller, which replays captured messages and queries the node's state.
    pub(super) other: TestCaller,
    captured: Arc<Mutex<Vec<CapturedMessage>>>,
    _proxy: FaultProxy,
}

impl FaultFixture {
    /// A node that is not started; `more` is added to its configuration.
    pub(super) async fn new(more: &str) -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker().await;
        let signer = organisation.node(NODE);
        let more = format!("{more}\n[log]\nformat = \"json\"\n");
        let home = DaemonHome::new(&organisation, &signer, &server.url(), &more);
        install_tally_agent(&home);
        let (proxy, mut published) = FaultProxy::start_tapped(&server).await;
        let caller = TestCaller::connect(&organisation, &proxy, organisation.caller("rip")).await;
        let other = TestCaller::connect(&organisation, &server, organisation.caller("eve")).await;
        let captured = Arc::<Mutex<Vec<CapturedMessage>>>::default();
        let captured_by_task = Arc::clone(&captured);
        tokio::spawn(async move {
            while let Some(message) = published.recv().await {
                captured_by_task.lock().unwrap().push(message);
            }
        });
        Self { organisation, server, signer, home, caller, other, captured, _proxy: proxy }
    }

    /// Starts the daemon, and waits until it is ready.
    pub(super) async fn start(&self) -> Rpcd {
        let mut node = self.home.clone().start();
        await_ready(&mut node, 1).await;
        node
    }

    /// How often each request was executed, from the agent's file.
    pub(super) fn effects(&self) -> HashMap<Uuid, u32> {
        read_tally(&self.home)
    }

    /// Calls an action of the tally.
    pub(super) async fn call_tally(&self, action: &str, wait: Duration) -> CallRecord {
        call_tally_as(&self.caller.client, action, wait).await
    }

    /// Every request that the caller has published so far, in order.
    pub(super) fn captured(&self) -> Vec<CapturedMessage> {
        let all = self.captured.lock().unwrap();
        let is_request = |sent: &&CapturedMessage| {
            sent.subject.starts_with("muster.") && !sent.payload.is_empty()
        };
        all.iter().filter(is_request).cloned().collect()
    }

    /// Publishes captured messages again.
    pub(super) async fn replay(&self, messages: &[CapturedMessage]) {
        for message in messages {
            let payload = Bytes::from(message.payload.clone());
            let reply_to = message.reply_to.as_deref().unwrap();
            let sent = self.other.bus.publish_with_reply(&message.subject, reply_to, payload);
            sent.await.unwrap();
        }
    }

    /// One of the daemon's counters.
    pub(super) async fn read_counter(&self, what: &str) -> u64 {
        let answer = self.other.call_action(NODE, "rpcutil", "daemon_stats", json!({})).await;
        let data = answer.reply.data;
        data.get(what).and_then(Value::as_u64).unwrap()
    }

    /// Waits until a counter has this value. The query uses another subscription than broadcasts, and may be processed
    /// before them.
    pub(super) async fn await_counter(&self, what: &str, expected: u64) {
        poll_until_ok(&format!("{what} is {expected}"), RECOVERY_TIMEOUT, async || {
            match self.read_counter(what).await {
                counted if counted == expected => Ok(()),
                counted => Err(counted),
            }
        })
        .await;
    }

    /// Waits until no request runs on the node.
    pub(super) async fn await_idle(&self) {
        poll_until_ok("no request is running", RECOVERY_TIMEOUT, async || {
            match self.running_count().await {
                0 => Ok(()),
                busy => Err(busy),
            }
        })
        .await;
    }

    /// Number of requests that run or wait on the node.
    pub(super) async fn running_count(&self) -> u64 {
        let answer = self.other.call_action(NODE, "rpcutil", "running", json!({})).await;
        let data = answer.reply.data;
        data.get("count").and_then(Value::as_u64).unwrap()
    }
}

/// Calls an action of the tally as this client.
pub(super) async fn call_tally_as(client: &Client, action: &str, wait: Duration) -> CallRecord {
    let node = Identity::parse(NODE).unwrap();
    let mut call = RpcCall::new("tally", action, CallTarget::Nodes([node].into())).unwrap();
    call.wait = wait;
    call.timeout = Some(Duration::from_secs(30));
    record_call(client, call).await
}
