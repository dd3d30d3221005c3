//! Sends one step of a longer operation to nodes, and repeats it to nodes that are busy or away for a short time.

use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::time::Duration;

use muster_base::NodeText;
use muster_calls::{CallEvent, CallTarget, Client, ClientError, ReceivedReply, RpcCall};
use muster_client::FleetConnection;
use muster_ddl::Action;
use muster_filter::NodeFilter;
use muster_wire::identity::Identity;
use muster_wire::status::ReplyReason;

/// How often a step is sent to a node that is busy, or away after the first step.
const MAX_TRIES: u32 = 5;
/// How often a step is sent to a node that does not reply.
const MAX_SILENT_TRIES: u32 = 2;
/// Pause before a step is sent again; each further pause is longer by as much.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// A step: the action `A`.
#[derive(Debug)]
pub(crate) struct Step<A> {
    /// Time limit of the action.
    limit: Duration,
    /// Whether nodes check that they match the caller's filter: the first step does. Later ones refer to it, and may have changed the node's facts.
    is_first: bool,
    /// Whether it is repeated to a silent node, which may have executed it.
    repeats: bool,
    action: PhantomData<fn() -> A>,
}

impl<A> Step<A> {
    /// The first step.
    pub(crate) const fn first(limit: Duration) -> Self {
        Self { limit, is_first: true, repeats: true, action: PhantomData }
    }

    /// A later step.
    pub(crate) const fn later(limit: Duration) -> Self {
        Self { is_first: false, ..Self::first(limit) }
    }

    /// A later step that is not repeated to a silent node.
    pub(crate) const fn once(limit: Duration) -> Self {
        Self { repeats: false, ..Self::later(limit) }
    }
}

/// Sends steps; clones share the connection.
#[derive(Debug, Clone)]
pub(crate) struct StepChannel {
    client: Client,
    /// Additional wait for replies.
    listen: Duration,
    filter: NodeFilter,
}

/// The answer of a node to a step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum StepAnswer<T> {
    /// The outputs.
    Done(T),
    /// The step failed, with the node's message, or its outputs cannot be read.
    Failed(NodeText),
    /// The node is busy.
    Busy(NodeText),
    /// The node is not connected: it has not received the step.
    Absent,
    /// The node did not reply: it may have received the step.
    Silent,
}

impl<T> StepAnswer<T> {
    fn from_reply<A: Action<Output = T>>(received: ReceivedReply) -> Self {
        if received.is_ok() {
            return match received.read_outputs::<A>() {
                Ok(outputs) => Self::Done(outputs),
                Err(error) => Self::Failed(format!("unexpected reply: {error}").into()),
            };
        }
        let reply = received.reply;
        match reply.reason {
            Some(ReplyReason::Busy { .. }) => Self::Busy(reply.statusmsg),
            _ => Self::Failed(reply.statusmsg),
        }
    }

    /// Whether another try can succeed. A node that is not connected at the first step may not exist, so it is reported at once. A silent node may have received the
    /// step, and the wait for it was long.
    fn may_retry<A>(&self, step: &Step<A>, tries: u32) -> bool {
        match self {
            Self::Absent if step.is_first => false,
            Self::Busy(_) | Self::Absent => tries < MAX_TRIES,
            Self::Silent => step.repeats && tries < MAX_SILENT_TRIES,
            Self::Done(_) | Self::Failed(_) => false,
        }
    }
}

impl StepChannel {
    /// A channel for the steps of an operation on nodes that match the filter.
    pub(crate) fn new(fleet: &FleetConnection, filter: NodeFilter) -> Self {
        Self { client: fleet.client.clone(), listen: fleet.listen, filter }
    }

    /// Sends a step to nodes, and again to those that are busy or away. All nodes have an answer.
    pub(crate) async fn ask_nodes<A: Action>(
        &self,
        step: &Step<A>,
        input: &A::Input,
        nodes: BTreeSet<Identity>,
    ) -> Result<BTreeMap<Identity, StepAnswer<A::Output>>, ClientError> {
        let mut answers = BTreeMap::new();
        let mut waiting = nodes;
        let mut tries = 1;
        loop {
            let last = self.ask_once(step, input, waiting).await?;
            let again = last.iter().filter(|(_, answer)| answer.may_retry(step, tries));
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
    pub(crate) async fn ask_node<A: Action>(
        &self,
        step: &Step<A>,
        input: &A::Input,
        node: &Identity,
    ) -> Result<StepAnswer<A::Output>, ClientError> {
        let nodes = BTreeSet::from([node.clone()]);
        let mut answers = self.ask_nodes(step, input, nodes).await?;
        Ok(answers.remove(node).unwrap_or(StepAnswer::Silent))
    }

    /// Sends a step to nodes, once.
    pub(crate) async fn ask_once<A: Action>(
        &self,
        step: &Step<A>,
        input: &A::Input,
        nodes: BTreeSet<Identity>,
    ) -> Result<BTreeMap<Identity, StepAnswer<A::Output>>, ClientError> {
        let mut answers: BTreeMap<Identity, StepAnswer<A::Output>> =
            nodes.iter().map(|node| (node.clone(), StepAnswer::Silent)).collect();
        let call = RpcCall::of_action::<A>(input, CallTarget::Nodes(nodes))?;
        let filter = if step.is_first { self.filter.clone() } else { NodeFilter::default() };
        let mut events = self.client.call(RpcCall {
            filter,
            timeout: Some(step.limit),
            wait: step.limit + self.listen,
            ..call
        });
        while let Some(event) = events.next().await {
            match event {
                CallEvent::Reply(received) => {
                    let node = received.reply.sender.clone();
                    answers.insert(node, StepAnswer::from_reply::<A>(*received));
                }
                CallEvent::Absent(node) => drop(answers.insert(node, StepAnswer::Absent)),
                CallEvent::Failed(error) => return Err(error),
                _ => {}
            }
        }
        Ok(answers)
    }
}
