//! A steady load of requests that change a node, each of them recorded twice: by its caller and by the node that ran it.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_calls::{CallEvent, CallTarget, Client, RpcCall};
use muster_tests::requests::read_client_settings;
use muster_wire::identity::Identity;
use serde_json::{Value, json};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::fleet::MachineFleet;
use super::nodes::node_name;
use super::organisation::OperatorHost;

/// The file to which the nodes append the number of each request.
const RECORD: &str = "/var/ran";
/// How long a caller waits for the reply.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// The reply that a caller got for its request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CallResult {
    /// The action succeeded.
    Succeeded,
    /// The node replied with another status: its name, and the message.
    Failed(String),
    /// The call named the node as one that did not reply.
    Missing,
}

/// One request.
#[derive(Debug)]
pub(crate) struct CallRecord {
    pub(crate) number: usize,
    pub(crate) machine: String,
    pub(crate) result: CallResult,
}

/// A running load.
#[derive(Debug)]
pub(crate) struct RequestLoad {
    stop: CancellationToken,
    task: JoinHandle<Vec<CallRecord>>,
}

/// A client with the files of `rip`.
pub(crate) async fn connect_client(operator: &OperatorHost) -> Client {
    Client::connect(read_client_settings(&operator.path("rip/rpc.toml"))).await.unwrap()
}

impl RequestLoad {
    /// Sends this many requests a second, to one machine after the other. The nodes need `plugins.shell.enabled`.
    pub(crate) fn start(client: Client, machines: Vec<String>, per_second: u32) -> Self {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            let mut calls = JoinSet::new();
            let mut interval = tokio::time::interval(Duration::from_secs(1) / per_second);
            for (number, machine) in machines.iter().cycle().enumerate() {
                tokio::select! {
                    _ = interval.tick() => {}
                    () = stopped.cancelled() => break,
                }
                calls.spawn(call_recorded(client.clone(), number, machine.clone()));
            }
            calls.join_all().await
        });
        Self { stop, task }
    }

    /// Sends no more requests; returns what became of them when all calls have ended.
    pub(crate) async fn finish(self) -> Vec<CallRecord> {
        self.stop.cancel();
        self.task.await.unwrap()
    }
}

async fn call_recorded(client: Client, number: usize, machine: String) -> CallRecord {
    let node = Identity::parse(&node_name(&machine)).unwrap();
    let mut call = RpcCall::new("shell", "run", CallTarget::Nodes([node.clone()].into())).unwrap();
    let Value::Object(data) = json!({"script": format!("echo {number} >>{RECORD}")}) else {
        panic!("not an object")
    };
    call.data = data;
    call.timeout = Some(CALL_TIMEOUT / 2);
    call.wait = CALL_TIMEOUT;
    let mut events = client.call(call);
    let mut result = None;
    loop {
        match events.next().await {
            Some(CallEvent::Reply(reply)) if reply.is_ok() => result = Some(CallResult::Succeeded),
            Some(CallEvent::Reply(reply)) => {
                let text = format!("{:?}: {}", reply.reply.statuscode, reply.reply.statusmsg.raw());
                result = Some(CallResult::Failed(text));
            }
            Some(CallEvent::Finished(stats)) => {
                let is_named = stats.missing.contains(&node);
                assert!(
                    result.is_some() || is_named,
                    "request {number} is not reported: {stats:?}"
                );
                break;
            }
            Some(CallEvent::Failed(error)) => panic!("request {number}: {error}"),
            Some(_) => {}
            None => panic!("request {number}: the call ended without a result"),
        }
    }
    CallRecord { number, machine, result: result.unwrap_or(CallResult::Missing) }
}

/// Counts of a load.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct LoadSummary {
    pub(crate) succeeded: usize,
    pub(crate) failed: BTreeMap<String, usize>,
    pub(crate) missing: usize,
}

/// Compares the replies with the runs on the nodes: no request ran twice, and each successful one ran.
pub(crate) async fn compare_records(fleet: &MachineFleet, records: &[CallRecord]) -> LoadSummary {
    let mut summary = LoadSummary::default();
    for machine in fleet.names() {
        let ran = fleet.sh(machine, &format!("cat {RECORD} || true")).await;
        let mut counts = BTreeMap::<usize, usize>::new();
        for line in ran.lines() {
            *counts.entry(line.parse().unwrap()).or_default() += 1;
        }
        let twice: Vec<_> = counts.iter().filter(|(_, count)| **count > 1).collect();
        assert!(twice.is_empty(), "{machine}: ran more than once: {twice:?}");
        for record in records.iter().filter(|record| record.machine == machine) {
            let has_run = counts.contains_key(&record.number);
            match &record.result {
                CallResult::Succeeded => {
                    assert!(has_run, "{machine}: request {} did not run", record.number);
                    summary.succeeded += 1;
                }
                CallResult::Failed(text) => {
                    *summary.failed.entry(text.clone()).or_default() += 1;
                }
                CallResult::Missing => summary.missing += 1,
            }
        }
    }
    summary
}
