//! A job as its lines tell it: a plain fold over entries, with what follows from them.

use std::collections::{BTreeMap, BTreeSet};

use muster_wire::Millis;
use muster_wire::identity::Identity;
use uuid::Uuid;

use super::entry::{Answered, End, Entry, Header};
use crate::exit::Exit;

/// One job.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// What was asked of whom.
    pub header: Header,
    /// The runs that nodes are asked for, in their order; none, unless they are asked for runs.
    pub runs: Vec<(Identity, Uuid)>,
    /// The waves, in the order in which they were asked.
    pub waves: Vec<Wave>,
    /// The nodes that were asked, or may have been.
    pub asked: BTreeSet<Identity>,
    /// The last answer of each node.
    pub replies: BTreeMap<Identity, Answered>,
    /// Nodes that were not connected.
    pub not_connected: BTreeSet<Identity>,
    /// How the last run ended, if it did.
    pub end: Option<(End, Millis)>,
    /// Lines that could not be read.
    pub damaged: usize,
    /// Whether somebody is at it now.
    pub running: bool,
}

/// Nodes that were asked together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wave {
    /// The request's id; unknown when whoever asked was killed while sending.
    pub request: Option<String>,
    /// The nodes.
    pub nodes: BTreeSet<Identity>,
}

/// How a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Somebody is at it.
    Running,
    /// It ended by itself.
    Ended(End),
    /// Whoever was at it is gone: killed, or the machine went down.
    Abandoned,
}

impl State {
    /// A stable word. An abandoned job is an interrupted one.
    pub fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Ended(End::Finished) => "finished",
            Self::Ended(End::Stopped) => "stopped",
            Self::Ended(End::Interrupted) | Self::Abandoned => "interrupted",
            Self::Ended(End::Broken) => "broken",
            Self::Ended(End::Unattended) => "unattended",
        }
    }
}

impl Job {
    /// Reads the bytes of a job's file; `None` when its first line is no job's. A line that cannot be read is counted; of the
    /// last one, which a crash may have torn, it is not worth speaking.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
        let Ok(Entry::Job(header)) = serde_json::from_slice(lines.next()?) else {
            return None;
        };
        let mut job = Self {
            header: *header,
            runs: Vec::new(),
            waves: Vec::new(),
            asked: BTreeSet::new(),
            replies: BTreeMap::new(),
            not_connected: BTreeSet::new(),
            end: None,
            damaged: 0,
            running: false,
        };
        for line in lines {
            match serde_json::from_slice(line) {
                Ok(entry) => job.take(entry),
                Err(_) if line.ends_with(b"\n") => job.damaged += 1,
                Err(_) => {}
            }
        }
        Some(job)
    }

    fn take(&mut self, entry: Entry) {
        match entry {
            Entry::Wave { nodes, .. } => {
                self.asked.extend(nodes.iter().cloned());
                let request = None;
                self.waves.push(Wave { request, nodes });
            }
            Entry::Runs { runs } => self.runs = runs,
            Entry::Sent { request } => self.sent(request),
            Entry::Result(answer) => {
                self.not_connected.remove(&answer.sender);
                self.replies.insert(answer.sender.clone(), answer);
            }
            Entry::NotConnected { nodes } => self.not_connected.extend(nodes),
            Entry::Resumed { .. } => self.end = None,
            Entry::End { how, time } => self.end = Some((how, time)),
            Entry::Job(_) | Entry::Unknown => {}
        }
    }

    fn sent(&mut self, request: String) {
        match self.waves.last_mut() {
            Some(wave) if wave.request.is_none() => wave.request = Some(request),
            // The line of its wave is damaged.
            _ => self.waves.push(Wave {
                request: Some(request),
                nodes: BTreeSet::new(),
            }),
        }
    }

    /// The requests' ids.
    pub fn requests(&self) -> Vec<&str> {
        let ids = self.waves.iter().map(|wave| wave.request.as_deref());
        ids.flatten().collect()
    }

    /// The waves as far as their nodes may still be at work: those that have not answered.
    pub fn open_waves(&self) -> Vec<Wave> {
        let open = |wave: &Wave| {
            let silent = |node: &&Identity| !self.replies.contains_key(*node);
            let nodes: BTreeSet<Identity> = wave.nodes.iter().filter(silent).cloned().collect();
            (!nodes.is_empty()).then(|| Wave {
                request: wave.request.clone(),
                nodes,
            })
        };
        self.waves.iter().filter_map(open).collect()
    }

    /// How it stands.
    pub fn state(&self) -> State {
        match self.end {
            _ if self.running => State::Running,
            Some((how, _)) => State::Ended(how),
            None => State::Abandoned,
        }
    }

    /// How a command that did all this would have ended.
    pub fn exit(&self) -> Exit {
        let answered = !self.replies.is_empty();
        let all = self.ok() == self.header.nodes.len();
        match self.state() {
            State::Ended(End::Unattended) => Exit::Passed,
            _ if all => Exit::Passed,
            State::Ended(End::Finished) if !answered => Exit::NoneAnswered,
            _ => Exit::SomeFailed,
        }
    }

    /// Nodes that did what was asked.
    pub fn ok(&self) -> usize {
        self.replies
            .values()
            .filter(|answer| answer.is_ok())
            .count()
    }

    /// Nodes that answered that they did not.
    pub fn failed(&self) -> BTreeSet<Identity> {
        let failed = self.replies.values().filter(|answer| !answer.is_ok());
        failed.map(|answer| answer.sender.clone()).collect()
    }

    /// Nodes that were asked, or may have been, and did not answer.
    pub fn unanswered(&self) -> BTreeSet<Identity> {
        let silent = |node: &&Identity| !self.replies.contains_key(*node);
        self.asked.iter().filter(silent).cloned().collect()
    }

    /// Nodes that were meant and never asked.
    pub fn never_asked(&self) -> BTreeSet<Identity> {
        self.header.nodes.difference(&self.asked).cloned().collect()
    }

    /// Nodes that failed or did not answer.
    pub fn bad(&self) -> BTreeSet<Identity> {
        let mut bad = self.failed();
        bad.extend(self.unanswered());
        bad
    }
}
