//! Writes a job's journal during a request. A write error is reported once and does not stop the request, because nodes are already working.

use std::collections::BTreeSet;

use crate::jobs::{JobEnd, JobEntry, JobJournal, SavedJobError};
use muster_base::unix_millis_now;
use muster_wire::identity::Identity;

use crate::node_reply::NodeReply;
use crate::observer::{RequestEvent, RequestObserver};

/// Writes events to a journal, if there is one.
#[derive(Debug)]
pub struct JobRecorder<'a> {
    journal: Option<JobJournal>,
    observer: &'a dyn RequestObserver,
    /// Nodes already recorded as not connected.
    absent: BTreeSet<Identity>,
    /// Whether the job has further requests after the current one.
    has_more: bool,
}

impl<'a> JobRecorder<'a> {
    /// Creates a recorder for this journal; without one it records nothing.
    pub fn new(journal: Option<JobJournal>, observer: &'a dyn RequestObserver) -> Self {
        Self { journal, observer, absent: BTreeSet::new(), has_more: false }
    }

    /// The job's id, if it is recorded.
    pub fn job_id(&self) -> Option<&str> {
        self.journal.as_ref().map(JobJournal::job_id)
    }

    /// States whether further requests of the same job follow the next one. If so, its completion does not end the job.
    pub fn set_has_more(&mut self, has_more: bool) {
        self.has_more = has_more;
    }

    /// Records a run request to this node. Its run id is on disk already, so a lost entry does no harm.
    pub(crate) fn record_run(&mut self, number: usize, node: Identity) {
        self.append_entry(&JobEntry::Wave { number, nodes: [node].into() });
    }

    /// Records that the request was sent.
    pub(crate) fn record_request(&mut self, request: &str) {
        self.append_entry(&JobEntry::Sent { request: request.to_owned() });
    }

    /// Records a reply.
    pub(crate) fn record_reply(&mut self, reply: &NodeReply) {
        self.write_journal(|journal| journal.append_reply(reply.into()));
    }

    /// Records the nodes of the next request. Synced to disk before the request is sent, so that a resumed job does not repeat it.
    pub(crate) fn record_wave(&mut self, number: usize, nodes: &BTreeSet<Identity>) {
        self.append_entry(&JobEntry::Wave { number, nodes: nodes.clone() });
        self.write_journal(|journal| journal.sync());
    }

    /// Records the end of a batch, and the nodes that are not connected, including those of earlier batches.
    pub(crate) fn record_not_connected(&mut self, not_connected: &BTreeSet<Identity>) {
        let nodes = not_connected - &self.absent;
        self.absent.extend(nodes.iter().cloned());
        if !nodes.is_empty() {
            self.append_entry(&JobEntry::NotConnected { nodes });
        }
        self.write_journal(|journal| journal.sync());
    }

    /// Records the end of the job.
    pub(crate) fn record_end(&mut self, end: JobEnd) {
        if self.has_more && end == JobEnd::of_rollout(None) {
            return;
        }
        self.append_entry(&JobEntry::End { end, time: unix_millis_now() });
        self.write_journal(|journal| journal.sync());
    }

    fn append_entry(&mut self, entry: &JobEntry) {
        self.write_journal(|journal| journal.append_entry(entry));
    }

    fn write_journal(&mut self, write: impl FnOnce(&mut JobJournal) -> Result<(), SavedJobError>) {
        let Some(journal) = &mut self.journal else {
            return;
        };
        if let Err(error) = write(journal) {
            self.observer.observe(RequestEvent::JournalFailed(journal.job_id(), &error));
            self.journal = None;
        }
    }
}
