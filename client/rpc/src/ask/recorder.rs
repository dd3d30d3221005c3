//! Keeps a job's journal while nodes are asked. A journal that cannot be written any more is told of once, and stops nothing: the
//! nodes are at work already.

use std::collections::BTreeSet;

use muster_wire::identity::Identity;

use crate::clock;
use crate::jobs::{End, Entry, JobError, Journal};
use crate::printer::Printer;
use crate::report::Reply;

/// Writes what happens into a journal, if there is one.
#[derive(Debug)]
pub struct Recorder<'a> {
    journal: Option<Journal>,
    printer: &'a Printer,
    /// Nodes that are recorded as not connected.
    absent: BTreeSet<Identity>,
}

impl<'a> Recorder<'a> {
    /// A recorder into this journal; without one it records nothing.
    pub fn new(journal: Option<Journal>, printer: &'a Printer) -> Self {
        Self {
            journal,
            printer,
            absent: BTreeSet::new(),
        }
    }

    /// The job's id, if it is recorded.
    pub fn id(&self) -> Option<&str> {
        self.journal.as_ref().map(Journal::id)
    }

    /// These nodes are asked now. On disk before anything is sent, so that nobody is asked twice by a job that goes on.
    pub(super) fn wave(&mut self, number: usize, nodes: &BTreeSet<Identity>) {
        let nodes = nodes.clone();
        self.write(|journal| {
            journal.add(&Entry::Wave { number, nodes })?;
            journal.sync()
        });
    }

    /// This node is asked for its run, whose identity is on the disk already: nothing is lost when this is.
    pub(super) fn run(&mut self, number: usize, node: Identity) {
        let nodes = BTreeSet::from([node]);
        self.write(|journal| journal.add(&Entry::Wave { number, nodes }));
    }

    /// The question is out.
    pub(super) fn sent(&mut self, request: &str) {
        let request = request.to_owned();
        self.write(|journal| journal.add(&Entry::Sent { request }));
    }

    /// A node has answered.
    pub(super) fn reply(&mut self, reply: &Reply) {
        self.write(|journal| journal.reply(reply));
    }

    /// The wave is over; these nodes are not connected, of earlier waves too.
    pub(super) fn waved(&mut self, not_connected: &BTreeSet<Identity>) {
        let nodes: BTreeSet<Identity> = not_connected.difference(&self.absent).cloned().collect();
        self.absent.extend(nodes.iter().cloned());
        self.write(|journal| {
            if !nodes.is_empty() {
                journal.add(&Entry::NotConnected { nodes })?;
            }
            journal.sync()
        });
    }

    /// All is over.
    pub(super) fn end(&mut self, how: End) {
        let time = clock::now();
        self.write(|journal| {
            journal.add(&Entry::End { how, time })?;
            journal.sync()
        });
    }

    fn write(&mut self, write: impl FnOnce(&mut Journal) -> Result<(), JobError>) {
        let Some(journal) = &mut self.journal else {
            return;
        };
        if let Err(error) = write(journal) {
            let id = journal.id();
            let why = crate::diagnostics::chain(&error);
            self.printer.warn(format_args!(
                "the job {id} is not recorded any more, and cannot be resumed from here on: {why}"
            ));
            self.journal = None;
        }
    }
}
