//! A job as its lines tell it: a plain fold over entries, with what follows from them.

use std::collections::{BTreeMap, BTreeSet};

use muster_wire::Millis;
use muster_wire::identity::Identity;
use uuid::Uuid;

use super::entry::{JobEnd, JobEntry, JobHeader, JobReply};
use crate::exit::CommandExitCode;

/// One job.
#[derive(Debug, Clone, PartialEq)]
pub struct SavedJob {
    /// What was asked of whom.
    pub header: JobHeader,
    /// The runs that nodes are asked for, in their order; none, unless they are asked for runs.
    pub runs: Vec<(Identity, Uuid)>,
    /// The waves, in the order in which they were asked.
    pub waves: Vec<JobWave>,
    /// The nodes that were asked, or may have been.
    pub asked: BTreeSet<Identity>,
    /// The last answer of each node.
    pub replies: BTreeMap<Identity, JobReply>,
    /// Nodes that were not connected.
    pub not_connected: BTreeSet<Identity>,
    /// How the last run ended, if it did.
    pub end: Option<(JobEnd, Millis)>,
    /// Lines that could not be read.
    pub damaged: usize,
    /// Whether somebody is at it now.
    pub running: bool,
}

/// Nodes that were asked together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobWave {
    /// The request's id; unknown when whoever asked was killed while sending.
    pub request: Option<String>,
    /// The nodes.
    pub nodes: BTreeSet<Identity>,
}

/// How a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobState {
    /// Somebody is at it.
    Running,
    /// It ended by itself.
    Ended(JobEnd),
    /// Whoever was at it is gone: killed, or the machine went down.
    Abandoned,
}

impl JobState {
    /// A stable word. An abandoned job is an interrupted one.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Ended(JobEnd::Finished) => "finished",
            Self::Ended(JobEnd::Stopped) => "stopped",
            Self::Ended(JobEnd::Interrupted) | Self::Abandoned => "interrupted",
            Self::Ended(JobEnd::Broken) => "broken",
            Self::Ended(JobEnd::Unattended) => "unattended",
        }
    }
}

impl SavedJob {
    /// Reads the bytes of a job's file; `None` when its first line is no job's. A line that cannot be read is counted; of the
    /// last one, which a crash may have torn, it is not worth speaking.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
        let Ok(JobEntry::Job(header)) = serde_json::from_slice(lines.next()?) else {
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
                Ok(entry) => job.apply_entry(entry),
                Err(_) if line.ends_with(b"\n") => job.damaged += 1,
                Err(_) => {}
            }
        }
        Some(job)
    }

    fn apply_entry(&mut self, entry: JobEntry) {
        match entry {
            JobEntry::Wave { nodes, .. } => {
                self.asked.extend(nodes.iter().cloned());
                let request = None;
                self.waves.push(JobWave { request, nodes });
            }
            JobEntry::Runs { runs } => self.runs = runs,
            JobEntry::Sent { request } => self.record_request(request),
            JobEntry::Result(answer) => {
                self.not_connected.remove(&answer.sender);
                self.replies.insert(answer.sender.clone(), answer);
            }
            JobEntry::NotConnected { nodes } => self.not_connected.extend(nodes),
            JobEntry::Resumed { .. } => self.end = None,
            JobEntry::End { how, time } => self.end = Some((how, time)),
            JobEntry::Job(_) | JobEntry::Unknown => {}
        }
    }

    fn record_request(&mut self, request: String) {
        match self.waves.last_mut() {
            Some(wave) if wave.request.is_none() => wave.request = Some(request),
            // The line of its wave is damaged.
            _ => self.waves.push(JobWave {
                request: Some(request),
                nodes: BTreeSet::new(),
            }),
        }
    }

    /// The requests' ids.
    pub fn request_ids(&self) -> Vec<&str> {
        let ids = self.waves.iter().map(|wave| wave.request.as_deref());
        ids.flatten().collect()
    }

    /// The waves as far as their nodes may still be at work: those that have not answered.
    pub fn open_waves(&self) -> Vec<JobWave> {
        let open = |wave: &JobWave| {
            let silent = |node: &&Identity| !self.replies.contains_key(*node);
            let nodes: BTreeSet<Identity> = wave.nodes.iter().filter(silent).cloned().collect();
            (!nodes.is_empty()).then(|| JobWave {
                request: wave.request.clone(),
                nodes,
            })
        };
        self.waves.iter().filter_map(open).collect()
    }

    /// How it stands.
    pub fn state(&self) -> JobState {
        match self.end {
            _ if self.running => JobState::Running,
            Some((how, _)) => JobState::Ended(how),
            None => JobState::Abandoned,
        }
    }

    /// How a command that did all this would have ended.
    pub fn exit_code(&self) -> CommandExitCode {
        let answered = !self.replies.is_empty();
        let all = self.ok_count() == self.header.nodes.len();
        match self.state() {
            JobState::Ended(JobEnd::Unattended) => CommandExitCode::Passed,
            _ if all => CommandExitCode::Passed,
            JobState::Ended(JobEnd::Finished) if !answered => CommandExitCode::NoneAnswered,
            _ => CommandExitCode::SomeFailed,
        }
    }

    /// Nodes that did what was asked.
    pub fn ok_count(&self) -> usize {
        self.replies
            .values()
            .filter(|answer| answer.is_ok())
            .count()
    }

    /// Nodes that answered that they did not.
    pub fn failed_nodes(&self) -> BTreeSet<Identity> {
        let failed = self.replies.values().filter(|answer| !answer.is_ok());
        failed.map(|answer| answer.sender.clone()).collect()
    }

    /// Nodes that were asked, or may have been, and did not answer.
    pub fn unanswered_nodes(&self) -> BTreeSet<Identity> {
        let silent = |node: &&Identity| !self.replies.contains_key(*node);
        self.asked.iter().filter(silent).cloned().collect()
    }

    /// Nodes that were meant and never asked.
    pub fn never_asked_nodes(&self) -> BTreeSet<Identity> {
        self.header.nodes.difference(&self.asked).cloned().collect()
    }

    /// Nodes that failed or did not answer.
    pub fn unsuccessful_nodes(&self) -> BTreeSet<Identity> {
        let mut bad = self.failed_nodes();
        bad.extend(self.unanswered_nodes());
        bad
    }
}
