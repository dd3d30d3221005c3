//! One node's reply: the only form of it above the collector that verified it.

use std::time::Duration;

use muster_base::NodeText;
use muster_calls::ReceivedReply;
use muster_calls::runs::RunOutcome;
use muster_wire::Millis;
use muster_wire::identity::Identity;
use muster_wire::status::{ReplyReason, ReplyStatus};
use muster_wire::trace::StageTiming;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// One node's reply. As JSON, an item of `replies` in `muster.request.v1`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(description = "One reply.")]
pub struct NodeReply {
    /// The sender.
    #[serde(rename = "sender")]
    pub node: Identity,
    /// The status.
    #[serde(rename = "statuscode")]
    pub status: ReplyStatus,
    /// The status message of the node.
    #[serde(rename = "statusmsg")]
    pub message: NodeText,
    /// The reason of a failure, with details.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<ReplyReason>,
    /// How long the action ran on the node, in milliseconds.
    #[serde(rename = "took_ms")]
    pub took: Millis,
    /// Stage timings, if the request was traced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<NodeTrace>,
    /// The action's outputs; sensitive ones are redacted.
    pub data: Map<String, Value>,
}

/// Timings of a request to one node and its reply, in microseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(description = "One node's part of a document; times in microseconds.")]
pub struct NodeTrace {
    /// Time from the request to the verified reply.
    pub total_us: u64,
    /// The time that the node and the verification did not take: network, and queues at the broker.
    pub network_us: u64,
    /// Verification time of the reply.
    pub verify_us: u64,
    /// The node's own stage timings.
    pub stages: Vec<StageTiming>,
}

impl NodeTrace {
    /// The timings of a reply with these stages that was verified this long after the request; `None` if the node reported no stages.
    pub fn new(stages: Vec<StageTiming>, total: Duration, verify: Duration) -> Option<Self> {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let reported = stages.iter().map(|stage| stage.us).fold(0, u64::saturating_add);
        let network = total.saturating_sub(verify).saturating_sub(Duration::from_micros(reported));
        let (total_us, network_us, verify_us) = (micros(total), micros(network), micros(verify));
        (!stages.is_empty()).then_some(Self { total_us, network_us, verify_us, stages })
    }

    /// The timings of a verified reply, if its request was traced.
    pub fn of_reply(received: &ReceivedReply) -> Option<Self> {
        let ReceivedReply { reply, after, verifying, .. } = received;
        Self::new(reply.stages.clone(), *after + *verifying, *verifying)
    }
}

impl NodeReply {
    /// Converts a verified reply; `data` are its outputs, redacted.
    pub(crate) fn new(received: ReceivedReply, data: Map<String, Value>) -> Self {
        let trace = NodeTrace::of_reply(&received);
        let reply = received.reply;
        Self {
            node: reply.sender,
            status: reply.statuscode,
            message: reply.statusmsg,
            reason: reply.reason,
            took: reply.took,
            trace,
            data,
        }
    }

    /// Whether the action succeeded.
    pub fn is_ok(&self) -> bool {
        self.status == ReplyStatus::Ok
    }

    /// The outputs in their typed form; defaults if they do not fit the type: a node with another version may send other types, and its values
    /// then count as missing.
    pub fn typed_outputs<T: DeserializeOwned + Default>(&self) -> T {
        muster_contract::read_values(&self.data).unwrap_or_default()
    }

    /// What the reply says of a Puppet run. The difference between the clocks is unknown.
    pub fn run_outcome(&self) -> RunOutcome {
        let (reason, message) = (self.reason.as_ref(), self.message.clone());
        RunOutcome::from_saved_reply(self.status, reason, message, self.data.clone())
    }
}
