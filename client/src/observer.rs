//! What happens during a request, for programs that show it. Results are not events: they are passed to the caller's own functions.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;

use crate::jobs::SavedJobError;
use muster_base::NodeText;
use muster_calls::{ClientError, DirectoryError, DiscoveryMethod, RolloutStopReason};
use muster_wire::identity::Identity;

/// An event of a request.
#[derive(Debug)]
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
    ProgramOutput(&'a Path, NodeText),
    /// The discovery program wrote a line to its standard error.
    ProgramWarning(&'a Path, NodeText),
    /// Requests to this number of nodes begin.
    CallsStarted(usize),
    /// A batch is about to be sent.
    BatchStarted {
        /// Number of the batch, from 1.
        number: usize,
        /// Number of batches.
        count: usize,
        /// Number of nodes in it.
        nodes: usize,
    },
    /// The number of nodes that have replied or are absent so far.
    RepliesCounted(usize),
    /// The user interrupted the wait for a change. Nodes continue with the job or request that has this id.
    NodesContinue(&'a str),
    /// A later batch could not be sent.
    BatchFailed(&'a ClientError),
    /// The rollout stops.
    RolloutStopped(RolloutStopReason),
    /// Copies of this many bytes in all begin.
    CopyStarted(u64),
    /// The number of bytes that were copied so far.
    BytesCounted(u64),
    /// No further request is sent, and no reply is awaited.
    CallsEnded,
    /// The journal of the job with this id cannot be written, so that the job cannot be resumed from here.
    JournalFailed(&'a str, &'a SavedJobError),
}

/// Receives the events of a request.
pub trait RequestObserver: Debug {
    /// Handles an event.
    fn observe(&self, event: RequestEvent<'_>);
}

/// Shows nothing.
impl RequestObserver for () {
    fn observe(&self, _: RequestEvent<'_>) {}
}
