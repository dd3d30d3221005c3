//! Sends one step of a copy to nodes, and repeats it to nodes that are busy or away for a short time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_client::{CallEvent, CallTarget, Client, ClientError, ReceivedReply, RpcCall};
use muster_contract::write_values;
use muster_wire::identity::Identity;
use muster_wire::status::ReplyReason;
use serde::Serialize;
use serde_json::{Map, Value};

/// The agent of all steps.
pub(super) const COPY_AGENT: &str = "filecopy";
/// Time limit of a step that moves one part.
const PART_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit of a step that reads a whole file.
const FILE_TIMEOUT: Duration = Duration::from_mins(10);
/// How often a step is sent to a node that is busy or away.
const MAX_TRIES: u32 = 5;
/// How often a step is sent to a node that does not reply.
const MAX_SILENT_TRIES: u32 = 2;
/// The step that is not repeated to a silent node, because it may have succeeded.
const FINISH_ACTION: &str = "finish";
/// Pause before a step is sent again; each further pause is longer by as much.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Sends steps; clones share the connection.
#[derive(Debug, Clone)]
pub(super) struct CopyChannel {
    pub(super) client: Client,
    /// Additional wait for replies.
    pub(super) listen: Duration,
}

/// The answer of a node to a step.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum StepAnswer {
    /// The outputs.
    Done(Map<String, Value>),
    /// The step failed, with the node's message.
    Failed(String),
    /// The node is busy.
    Busy(String),
    /// The node is not connected: it has not received the step.
    Absent,
    /// The node did not reply: it may have received the step.
    Silent,
}

impl StepAnswer {
    fn from_reply(received: ReceivedReply) -> Self {
        let is_ok = received.is_ok();
        let reply = received.reply;
        match reply.reason {
            _ if is_ok => Self::Done(reply.data),
            Some(ReplyReason::Busy { .. }) => Self::Busy(reply.statusmsg),
            _ => Self::Failed(reply.statusmsg),
        }
    }

    /// Whether another try can succeed. A silent node may have received the step, and the wait for it was long.
    fn may_retry(&self, action: &str, tries: u32) -> bool {
        match self {
            Self::Busy(_) | Self::Absent => tries < MAX_TRIES,
            Self::Silent => action != FINISH_ACTION && tries < MAX_SILENT_TRIES,
            Self::Done(_) | Self::Failed(_) => false,
        }
    }
}

impl CopyChannel {
    /// Sends a step to nodes, and again to those that are busy or away. All nodes have an answer.
    pub(super) async fn ask_nodes(
        &self,
        action: &str,
        inputs: &impl Serialize,
        nodes: BTreeSet<Identity>,
    ) -> Result<BTreeMap<Identity, StepAnswer>, ClientError> {
        let data = write_values(inputs);
        let mut answers = BTreeMap::new();
        let mut waiting = nodes;
        let mut tries = 1;
        loop {
            let last = self.ask_once(action, &data, waiting).await?;
            let again = last.iter().filter(|(_, answer)| answer.may_retry(action, tries));
            waiting = again.map(|(node, _)| node.clone()).collect();
            answers.extend(last);
            if waiting.is_empty() {
                return Ok(answers);
            }
            tokio::time::sleep(RETRY_PAUSE * tries).await;
            tries += 1;
        }
    }

    /// Sends a step to one node.
    pub(super) async fn ask_node(
        &self,
        action: &str,
        inputs: &impl Serialize,
        node: &Identity,
    ) -> Result<StepAnswer, ClientError> {
        let nodes = BTreeSet::from([node.clone()]);
        let mut answers = self.ask_nodes(action, inputs, nodes).await?;
        Ok(answers.remove(node).unwrap_or(StepAnswer::Silent))
    }

    async fn ask_once(
        &self,
        action: &str,
        data: &Map<String, Value>,
        nodes: BTreeSet<Identity>,
    ) -> Result<BTreeMap<Identity, StepAnswer>, ClientError> {
        let mut answers: BTreeMap<Identity, StepAnswer> =
            nodes.iter().map(|node| (node.clone(), StepAnswer::Silent)).collect();
        let limit = match action {
            "write" | "read" | "abort" => PART_TIMEOUT,
            _ => FILE_TIMEOUT,
        };
        let call = RpcCall::new(COPY_AGENT, action, CallTarget::Nodes(nodes))?;
        let mut events = self.client.call(RpcCall {
            data: data.clone(),
            timeout: Some(limit),
            wait: limit + self.listen,
            ..call
        });
        while let Some(event) = events.next().await {
            match event {
                CallEvent::Reply(received) => {
                    let node = received.reply.sender.clone();
                    answers.insert(node, StepAnswer::from_reply(*received));
                }
                CallEvent::Absent(node) => drop(answers.insert(node, StepAnswer::Absent)),
                CallEvent::Failed(error) => return Err(error),
                _ => {}
            }
        }
        Ok(answers)
    }
}
