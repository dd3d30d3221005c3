//! Writes a job's journal during a request. A write error is reported once and does not stop the request, because nodes are already working.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use muster_base::unix_millis_now;
use muster_wire::identity::Identity;

use crate::jobs::{JobEnd, JobEntry, JobJournal, SavedJobError};

use crate::observer::{RequestEvent, RequestObserver};
use crate::run_log::RunLogLine;

/// Writes events to a journal, if there is one, and passes them on.
#[derive(Debug)]
pub struct JobRecorder<'a> {
    journal: RefCell<Option<JobJournal>>,
    next: &'a dyn RequestObserver,
    /// Nodes of the current batch that are not connected.
    absent: RefCell<BTreeSet<Identity>>,
    /// Whether the job has further requests after the current one.
    has_more: Cell<bool>,
}

impl<'a> JobRecorder<'a> {
    /// Creates a recorder for this journal; without one it records nothing.
    pub fn new(journal: Option<JobJournal>, next: &'a dyn RequestObserver) -> Self {
        let journal = RefCell::new(journal);
        Self { journal, next, absent: RefCell::default(), has_more: Cell::new(false) }
    }

    /// The job's id, if it is recorded.
    pub fn job_id(&self) -> Option<String> {
        self.journal.borrow().as_ref().map(|journal| journal.job_id().to_owned())
    }

    /// States whether further requests of the same job follow the next one. If so, its completion does not end the job.
    pub fn set_has_more(&self, has_more: bool) {
        self.has_more.set(has_more);
    }

    fn record_event(
        &self,
        event: RequestEvent<'_>,
        journal: &mut JobJournal,
    ) -> Result<(), SavedJobError> {
        match event {
            // Synced to disk before the request is sent, so that a resumed job does not repeat it.
            RequestEvent::BatchStarted { number, nodes, .. } => {
                journal.append_entry(&JobEntry::Wave { number, nodes: nodes.clone() })?;
                journal.sync()
            }
            // The run id is on disk already, so a lost entry does no harm.
            RequestEvent::RunRequested { number, node } => {
                journal.append_entry(&JobEntry::Wave { number, nodes: [node.clone()].into() })
            }
            RequestEvent::Sent(request) => {
                journal.append_entry(&JobEntry::Sent { request: request.to_owned() })
            }
            RequestEvent::Reply(reply) => journal.append_reply(reply.into()),
            RequestEvent::Absent(node) => {
                self.absent.borrow_mut().insert(node.clone());
                Ok(())
            }
            RequestEvent::BatchEnded | RequestEvent::Run(RunLogLine::Ended(..)) => {
                let nodes = self.absent.take();
                if !nodes.is_empty() {
                    journal.append_entry(&JobEntry::NotConnected { nodes })?;
                }
                journal.sync()
            }
            RequestEvent::CallsEnded(JobEnd::Finished) if self.has_more.get() => Ok(()),
            RequestEvent::CallsEnded(end) => {
                journal.append_entry(&JobEntry::End { end, time: unix_millis_now() })?;
                journal.sync()
            }
            _ => Ok(()),
        }
    }
}

impl RequestObserver for JobRecorder<'_> {
    fn observe(&self, event: RequestEvent<'_>) {
        let mut journal = self.journal.take();
        if let Some(open) = &mut journal
            && let Err(error) = self.record_event(event, open)
        {
            self.next.observe(RequestEvent::JournalFailed(open.job_id(), &error));
            journal = None;
        }
        self.journal.replace(journal);
        self.next.observe(event);
    }

    fn is_closed(&self) -> bool {
        self.next.is_closed()
    }
}
