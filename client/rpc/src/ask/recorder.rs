//! Keeps a job's journal while nodes are asked. A journal that cannot be written any more is told of once, and stops nothing: the
//! nodes are at work already.

use std::collections::BTreeSet;

use muster_wire::identity::Identity;

use crate::clock;
use crate::jobs::{JobEnd, JobEntry, JobJournal, SavedJobError};
use crate::printer::OutputPrinter;
use crate::report::NodeReply;

/// Writes what happens into a journal, if there is one.
#[derive(Debug)]
pub struct JobRecorder<'a> {
    journal: Option<JobJournal>,
    printer: &'a OutputPrinter,
    /// Nodes that are recorded as not connected.
    absent: BTreeSet<Identity>,
}

impl<'a> JobRecorder<'a> {
    /// A recorder into this journal; without one it records nothing.
    pub fn new(journal: Option<JobJournal>, printer: &'a OutputPrinter) -> Self {
        Self {
            journal,
            printer,
            absent: BTreeSet::new(),
        }
    }

    /// The job's id, if it is recorded.
    pub fn job_id(&self) -> Option<&str> {
        self.journal.as_ref().map(JobJournal::job_id)
    }

    /// These nodes are asked now. On disk before anything is sent, so that nobody is asked twice by a job that goes on.
    pub(super) fn record_wave(&mut self, number: usize, nodes: &BTreeSet<Identity>) {
        let nodes = nodes.clone();
        self.write_entry(|journal| {
            journal.append_entry(&JobEntry::Wave { number, nodes })?;
            journal.sync()
        });
    }

    /// This node is asked for its run, whose identity is on the disk already: nothing is lost when this is.
    pub(super) fn record_run(&mut self, number: usize, node: Identity) {
        let nodes = BTreeSet::from([node]);
        self.write_entry(|journal| journal.append_entry(&JobEntry::Wave { number, nodes }));
    }

    /// The question is out.
    pub(super) fn record_request(&mut self, request: &str) {
        let request = request.to_owned();
        self.write_entry(|journal| journal.append_entry(&JobEntry::Sent { request }));
    }

    /// A node has answered.
    pub(super) fn record_reply(&mut self, reply: &NodeReply) {
        self.write_entry(|journal| journal.append_reply(reply));
    }

    /// The wave is over; these nodes are not connected, of earlier waves too.
    pub(super) fn record_not_connected(&mut self, not_connected: &BTreeSet<Identity>) {
        let nodes: BTreeSet<Identity> = not_connected.difference(&self.absent).cloned().collect();
        self.absent.extend(nodes.iter().cloned());
        self.write_entry(|journal| {
            if !nodes.is_empty() {
                journal.append_entry(&JobEntry::NotConnected { nodes })?;
            }
            journal.sync()
        });
    }

    /// All is over.
    pub(super) fn record_end(&mut self, how: JobEnd) {
        let time = clock::now();
        self.write_entry(|journal| {
            journal.append_entry(&JobEntry::End { how, time })?;
            journal.sync()
        });
    }

    fn write_entry(&mut self, write: impl FnOnce(&mut JobJournal) -> Result<(), SavedJobError>) {
        let Some(journal) = &mut self.journal else {
            return;
        };
        if let Err(error) = write(journal) {
            let id = journal.job_id();
            let why = crate::diagnostics::error_chain(&error);
            self.printer.print_warning(format_args!(
                "the job {id} is not recorded any more, and cannot be resumed from here on: {why}"
            ));
            self.journal = None;
        }
    }
}
