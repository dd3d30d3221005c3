//! Events of a running call: the interface between this library and its user interfaces.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_contract::read_values;
use muster_ddl::Action;
use muster_wire::Millis;
use muster_wire::identity::Identity;
use muster_wire::reply::Reply;
use muster_wire::token::ServiceRight;
use tokio::sync::mpsc;

use crate::error::ClientError;
use crate::progress::ProgressUpdate;
use crate::stats::CallStats;

/// An event of a call.
#[derive(Debug)]
pub enum CallEvent {
    /// The request was sent.
    Published {
        /// The request's id.
        request: uuid::Uuid,
        /// The expected nodes; `None` when unknown.
        expected: Option<BTreeSet<Identity>>,
    },
    /// Progress of an expected node before its reply; only with [`crate::RpcCall::stream`].
    Progress(Box<ProgressUpdate>),
    /// A verified reply of an expected node, or of any node when the expected nodes are unknown.
    Reply(Box<ReceivedReply>),
    /// A verified reply of a node that was not expected, or a second reply of the same node.
    Unexpected(Box<ReceivedReply>),
    /// The broker reports no subscriber for this node.
    Absent(Identity),
    /// A reply that failed verification, with a stable reason code.
    Rejected(&'static str),
    /// The call has ended.
    Finished(Box<CallStats>),
    /// The call could not be sent, or was aborted. Always the last event.
    Failed(ClientError),
}

/// A verified reply of one node.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceivedReply {
    /// The reply itself.
    pub reply: Reply,
    /// The services for which its sender may answer.
    pub rights: Vec<ServiceRight>,
    /// Time from the request to the arrival of this reply.
    pub after: Duration,
    /// Wall-clock time of its arrival.
    pub arrived: Millis,
    /// Verification time; replies that are verified in one batch share its time evenly.
    pub verifying: Duration,
}

impl ReceivedReply {
    /// Whether the action succeeded.
    pub fn is_ok(&self) -> bool {
        self.reply.statuscode == muster_wire::status::ReplyStatus::Ok
    }

    /// The outputs of the action that was called.
    pub fn read_outputs<A: Action>(&self) -> serde_json::Result<A::Output> {
        read_values(&self.reply.data)
    }

    /// The rule with which the policy of the node denied the request; `None` if it did not.
    pub fn denial(&self) -> Option<&str> {
        match &self.reply.reason {
            Some(muster_wire::status::ReplyReason::Denied { rule }) => Some(rule),
            _ => None,
        }
    }
}

/// The events of one call, in order. Dropping it ends the call locally; nodes that received the request are not notified.
#[derive(Debug)]
pub struct CallEventStream(pub(crate) mpsc::Receiver<CallEvent>);

impl CallEventStream {
    /// Returns the next event; `None` after the last one.
    pub async fn next(&mut self) -> Option<CallEvent> {
        self.0.recv().await
    }
}
