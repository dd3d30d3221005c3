//! Builds a job from its lines: a fold over entries, and values derived from it.

use std::collections::{BTreeMap, BTreeSet};

use muster_wire::Millis;
use muster_wire::identity::Identity;
use serde_json::Value;
use uuid::Uuid;

use super::entry::{JobEnd, JobEntry, JobHeader, JobReply};

/// A saved job.
#[derive(Debug, Clone, PartialEq)]
pub struct SavedJob {
    /// The request and its target nodes.
    pub header: JobHeader,
    /// Run ids in run order; empty unless the job is a rollout of Puppet runs.
    pub runs: Vec<(Identity, Uuid)>,
    /// The batches, in order.
    pub waves: Vec<JobWave>,
    /// Nodes that received the request, or may have.
    pub requested_nodes: BTreeSet<Identity>,
    /// The last reply of each node.
    pub replies: BTreeMap<Identity, JobReply>,
    /// Nodes that were not connected.
    pub not_connected: BTreeSet<Identity>,
    /// How and when the last run of the job ended, if it did.
    pub end: Option<(JobEnd, Millis)>,
    /// Number of unreadable lines.
    pub damaged: usize,
    /// Whether a process is running the job now.
    pub running: bool,
}

/// Nodes of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobWave {
    /// The request's id; unknown if the process was killed while sending.
    pub request: Option<String>,
    /// The nodes.
    pub nodes: BTreeSet<Identity>,
}

/// State of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobState {
    /// A process is running it.
    Running,
    /// It ended normally.
    Ended(JobEnd),
    /// Its process is gone: killed, or the machine went down.
    Abandoned,
}

/// How a request to several nodes ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestOutcome {
    /// The action succeeded on all nodes.
    Succeeded,
    /// There was no node to send it to.
    NoNodes,
    /// The action failed on some nodes, or they did not reply or were not asked.
    SomeFailed,
    /// No node replied.
    NoReplies,
}

impl RequestOutcome {
    /// The outcome of an operation on this many nodes, of which these succeeded and these did not reply.
    pub fn of_nodes(nodes: usize, succeeded: usize, silent: usize) -> Self {
        match nodes {
            0 => Self::NoNodes,
            all if all == succeeded => Self::Succeeded,
            all if all == silent => Self::NoReplies,
            _ => Self::SomeFailed,
        }
    }
}

impl JobState {
    /// The stable name in documents. An abandoned job counts as interrupted.
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
    /// Parses a job's file; `None` if the first line is not a job header. Unreadable lines are counted, except the last one, which a crash may have
    /// truncated.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
        let Ok(JobEntry::Job(header)) = serde_json::from_slice(lines.next()?) else {
            return None;
        };
        let mut job = Self {
            header: *header,
            runs: Vec::new(),
            waves: Vec::new(),
            requested_nodes: BTreeSet::new(),
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
                self.requested_nodes.extend(nodes.iter().cloned());
                self.waves.push(JobWave { request: None, nodes });
            }
            JobEntry::Runs { runs } => self.runs = runs,
            JobEntry::Sent { request } => self.record_request(request),
            JobEntry::Result(reply) => {
                self.not_connected.remove(&reply.sender);
                self.replies.insert(reply.sender.clone(), reply);
            }
            JobEntry::NotConnected { nodes } => self.not_connected.extend(nodes),
            JobEntry::Resumed { .. } => self.end = None,
            JobEntry::End { end, time } => self.end = Some((end, time)),
            JobEntry::Job(_) | JobEntry::Unknown => {}
        }
    }

    fn record_request(&mut self, request: String) {
        match self.waves.last_mut() {
            Some(wave) if wave.request.is_none() => wave.request = Some(request),
            // The line of its batch is damaged.
            _ => self.waves.push(JobWave { request: Some(request), nodes: BTreeSet::new() }),
        }
    }

    /// The requests' ids.
    pub fn request_ids(&self) -> Vec<&str> {
        self.waves.iter().filter_map(|wave| wave.request.as_deref()).collect()
    }

    /// The batches, restricted to nodes without a reply, which may still be working.
    pub fn open_waves(&self) -> Vec<JobWave> {
        let waves = self.waves.iter();
        let open = waves.map(|JobWave { request, nodes }| JobWave {
            request: request.clone(),
            nodes: self.without_reply(nodes),
        });
        open.filter(|wave| !wave.nodes.is_empty()).collect()
    }

    fn without_reply(&self, nodes: &BTreeSet<Identity>) -> BTreeSet<Identity> {
        nodes.iter().filter(|node| !self.replies.contains_key(*node)).cloned().collect()
    }

    /// The state of the job.
    pub fn state(&self) -> JobState {
        match self.end {
            _ if self.running => JobState::Running,
            Some((end, _)) => JobState::Ended(end),
            None => JobState::Abandoned,
        }
    }

    /// How the request ended, by the replies so far.
    pub fn outcome(&self) -> RequestOutcome {
        match self.state() {
            JobState::Ended(JobEnd::Unattended) => RequestOutcome::Succeeded,
            _ if self.ok_count() == self.header.nodes.len() => RequestOutcome::Succeeded,
            JobState::Ended(JobEnd::Finished) if self.replies.is_empty() => {
                RequestOutcome::NoReplies
            }
            _ => RequestOutcome::SomeFailed,
        }
    }

    /// Number of nodes whose action succeeded.
    pub fn ok_count(&self) -> usize {
        self.replies.values().filter(|reply| reply.is_ok()).count()
    }

    /// Nodes that replied with a failure.
    pub fn failed_nodes(&self) -> BTreeSet<Identity> {
        let failed = self.replies.values().filter(|reply| !reply.is_ok());
        failed.map(|reply| reply.sender.clone()).collect()
    }

    /// The requests that changed nodes, in the order of the batches, each with the nodes that it changed: those that replied with `changed: true`, also
    /// if the action failed in the end, and those whose outputs were too large to store. Empty for a noop job, which changes nothing.
    pub fn changed_parts(&self) -> Vec<(String, BTreeSet<Identity>)> {
        if self.header.inputs.get("noop") == Some(&Value::Bool(true)) {
            return Vec::new();
        }
        let was_changed = |node: &&Identity| {
            self.replies.get(*node).is_some_and(|reply| {
                reply.data_omitted.is_some()
                    || reply.data.get("changed") == Some(&Value::Bool(true))
            })
        };
        let waves = self.waves.iter();
        let parts = waves.filter_map(|wave| {
            let nodes: BTreeSet<Identity> =
                wave.nodes.iter().filter(was_changed).cloned().collect();
            Some((wave.request.clone()?, nodes))
        });
        parts.filter(|(_, nodes)| !nodes.is_empty()).collect()
    }

    /// Nodes that received the request, or may have, and did not reply.
    pub fn unanswered_nodes(&self) -> BTreeSet<Identity> {
        self.without_reply(&self.requested_nodes)
    }

    /// Target nodes that never received the request.
    pub fn never_asked_nodes(&self) -> BTreeSet<Identity> {
        self.header.nodes.difference(&self.requested_nodes).cloned().collect()
    }

    /// Nodes that failed or did not reply.
    pub fn unsuccessful_nodes(&self) -> BTreeSet<Identity> {
        &self.failed_nodes() | &self.unanswered_nodes()
    }
}
