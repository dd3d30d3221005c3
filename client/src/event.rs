//! What a call tells while it goes on: the whole interface between the library and whoever draws it.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_wire::identity::Identity;
use muster_wire::reply::Reply;
use tokio::sync::mpsc;

use crate::error::ClientError;
use crate::progress::ProgressUpdate;
use crate::stats::CallStats;

/// Something happened in a call.
#[derive(Debug)]
pub enum CallEvent {
    /// The question is out.
    Published {
        /// The request's id.
        request: uuid::Uuid,
        /// Who is expected to answer; `None` when nobody knows.
        expected: Option<BTreeSet<Identity>>,
    },
    /// What a node that was expected tells before its answer; only with [`crate::RpcCall::stream`].
    Progress(Box<ProgressUpdate>),
    /// A verified answer of a node that was expected, or of any node when nobody knows.
    Reply(Box<ReceivedReply>),
    /// A verified answer of a node that was not asked, or answers twice.
    Unexpected(Box<ReceivedReply>),
    /// The broker says that this node is not there.
    Absent(Identity),
    /// An answer that is not believed, in a stable word.
    Disbelieved(&'static str),
    /// The call is over.
    Finished(Box<CallStats>),
    /// The call could not be made, or broke off. Nothing follows.
    Failed(ClientError),
}

/// One node's answer.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceivedReply {
    /// What it says.
    pub reply: Reply,
    /// Time from the question to this answer.
    pub after: Duration,
    /// How long it took to verify it; answers that are verified together share their time evenly.
    pub verifying: Duration,
}

impl ReceivedReply {
    /// Whether the action did what was asked.
    pub fn is_ok(&self) -> bool {
        self.reply.statuscode == muster_wire::status::ReplyStatus::Ok
    }
}

/// The events of one call, in their order. Dropping it ends the call at the caller; nodes that were asked are not told.
#[derive(Debug)]
pub struct CallEventStream(pub(crate) mpsc::Receiver<CallEvent>);

impl CallEventStream {
    /// The next event; `None` after the last one.
    pub async fn next(&mut self) -> Option<CallEvent> {
        self.0.recv().await
    }
}
