//! What happens during a request: one event type, and the trait of the sinks that show, record or count the events.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::path::Path;

use muster_base::NodeText;
use muster_calls::{
    ClientError, DirectoryError, DiscoveryMethod, ProgressUpdate, RolloutStopReason,
};
use muster_wire::identity::Identity;

use crate::jobs::{JobEnd, SavedJobError};
use crate::node_reply::NodeReply;
use crate::run_log::RunLogLine;

/// An event of a request.
#[derive(Debug, Clone, Copy)]
pub enum RequestEvent<'a> {
    /// Discovery begins.
    DiscoveryStarted(DiscoveryMethod),
    /// A directory runs, but gives no answer: the nodes themselves are asked.
    DirectoryUnavailable(&'a DirectoryError),
    /// The number of nodes that are discovered so far.
    NodesCounted(usize),
    /// Discovery has ended with this number of nodes.
    DiscoveryEnded(DiscoveryMethod, usize),
    /// These nodes replied and refused the request, with these messages; may be empty.
    NodesRefused(&'a BTreeMap<Identity, NodeText>),
    /// The discovery program wrote a line to its standard output.
    ProgramOutput(&'a Path, &'a NodeText),
    /// The discovery program wrote a line to its standard error.
    ProgramWarning(&'a Path, &'a NodeText),
    /// Replies that other processes asked for are received on this subject from now on.
    Listening(&'a str),
    /// Requests to this number of nodes begin.
    CallsStarted(usize),
    /// A batch is about to be sent: from now on its nodes may be working.
    BatchStarted {
        /// Number of the batch, from 1.
        number: usize,
        /// Number of batches.
        count: usize,
        /// The nodes in it.
        nodes: &'a BTreeSet<Identity>,
        /// Whether the user asked for batches; otherwise it has all nodes.
        is_rollout: bool,
    },
    /// A Puppet run is about to be requested of one node.
    RunRequested {
        /// Number of the request, from 1.
        number: usize,
        /// The node.
        node: &'a Identity,
    },
    /// The request with this id was sent.
    Sent(&'a str),
    /// A node reports progress.
    Progress(&'a ProgressUpdate),
    /// A node replied.
    Reply(&'a NodeReply),
    /// The broker reports that this node is not connected.
    Absent(&'a Identity),
    /// The number of nodes that have replied or are absent so far.
    RepliesCounted(usize),
    /// A Puppet run has begun, or ended, or waits.
    Run(&'a RunLogLine),
    /// No more replies to the batch are awaited.
    BatchEnded,
    /// The user interrupted the wait for a change. Nodes continue with the job or request that has this id.
    NodesContinue(&'a str),
    /// A request could not be sent.
    SendFailed(&'a ClientError),
    /// Copies of this many bytes in all begin.
    CopyStarted(u64),
    /// The number of bytes that were copied so far.
    BytesCounted(u64),
    /// No further request is sent, and no reply is awaited.
    CallsEnded(JobEnd),
    /// The rollout stops before all nodes received the request.
    Stopped {
        /// Why.
        reason: RolloutStopReason,
        /// Number of nodes whose results are still awaited.
        in_flight: usize,
    },
    /// The journal of the job with this id cannot be written, so that the job cannot be resumed from here.
    JournalFailed(&'a str, &'a SavedJobError),
}

/// A sink of events. Several are chained: each does its part and passes the events on to the next.
pub trait RequestObserver: Debug {
    /// Handles an event. An error is kept: see [`Self::is_closed`].
    fn observe(&self, event: RequestEvent<'_>);

    /// Whether the sink failed, as when its output was closed, and knows the error. The request then ends, as if its process were killed.
    fn is_closed(&self) -> bool {
        false
    }
}

/// Shows nothing.
impl RequestObserver for () {
    fn observe(&self, _: RequestEvent<'_>) {}
}
