//! The lines of a job's file. Within a version of the schema kinds and fields are only added; readers leave out what they do
//! not know.

use std::collections::BTreeSet;

use muster_wire::Millis;
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::status::{ReplyReason, ReplyStatus};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::report::NodeReply;

/// The schema of the lines, and its version.
pub const JOB_LINES_SCHEMA: &str = "muster.job.lines.v1";

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum JobEntry {
    /// What is asked of whom: the first line.
    Job(Box<JobHeader>),
    /// The job goes on, after it was interrupted.
    Resumed {
        /// When.
        time: Millis,
    },
    /// Each node has a run of its own, in the order in which they have their turn. On disk before anybody is asked: asked again for
    /// the same run, a node tells how it went, and runs no second time.
    Runs {
        /// The nodes, and the identities of their runs.
        runs: Vec<(Identity, Uuid)>,
    },
    /// These nodes are being asked: from now on they may be at work.
    Wave {
        /// Counted from 1, in each run anew.
        number: usize,
        /// The nodes.
        nodes: BTreeSet<Identity>,
    },
    /// The question is out.
    Sent {
        /// The request's id.
        request: String,
    },
    /// A node's answer.
    Result(JobReply),
    /// These nodes are not connected, as the broker says.
    NotConnected {
        /// The nodes.
        nodes: BTreeSet<Identity>,
    },
    /// The run is over.
    End {
        /// How.
        how: JobEnd,
        /// When.
        time: Millis,
    },
    /// A line of a later version.
    #[serde(other)]
    Unknown,
}

/// How a run ended, when it ended by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobEnd {
    /// Everybody was asked.
    Finished,
    /// Too many failed.
    Stopped,
    /// The user wanted no more.
    Interrupted,
    /// A wave could not be sent.
    Broken,
    /// Everybody was asked, and answers were not wanted.
    Unattended,
}

/// What is asked of whom.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobHeader {
    /// [`JOB_LINES_SCHEMA`].
    pub schema: String,
    /// The job's own name in the store.
    pub id: String,
    /// The name that the user gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<SubjectName>,
    /// When it began.
    pub started: Millis,
    /// The collective that is asked.
    pub collective: SubjectName,
    /// The agent.
    pub agent: String,
    /// The action.
    pub action: String,
    /// Whether the action leaves nodes as they were.
    pub read_only: bool,
    /// The inputs; what is sensitive is redacted.
    pub inputs: Map<String, Value>,
    /// The inputs that were redacted.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub sensitive: BTreeSet<String>,
    /// The inputs of which only a digest was kept.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub digested: BTreeSet<String>,
    /// How the nodes were chosen, in English.
    pub target: String,
    /// Everybody who is meant.
    pub nodes: BTreeSet<Identity>,
    /// How they are asked.
    pub shaping: JobPacing,
    /// The job whose failures this one retries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<String>,
}

/// In which waves nodes are asked, and how long they have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobPacing {
    /// So many first and alone.
    pub canary: u32,
    /// So many at a time, as `10` or `10%`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<String>,
    /// So many may fail, in the same form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_failures: Option<String>,
    /// Between waves, in milliseconds.
    pub pause_ms: u64,
    /// What the action may take, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// How long a node may take until it begins, in milliseconds.
    pub ttl_ms: u64,
}

/// One node's answer, in the words of a request's document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct JobReply {
    /// Who answers.
    pub sender: Identity,
    /// How it ended.
    pub statuscode: ReplyStatus,
    /// The status in the node's words.
    pub statusmsg: String,
    /// What the status cannot say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<ReplyReason>,
    /// How long the action ran on the node, in milliseconds.
    #[serde(default)]
    pub took_ms: Millis,
    /// The outputs.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub data: Map<String, Value>,
    /// The outputs were too large to keep: so many bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_omitted: Option<usize>,
}

impl JobReply {
    /// A reply as it is kept: its outputs are left out when they are larger than `room` bytes.
    pub fn new(reply: &NodeReply, room: usize) -> Self {
        let bytes = serde_json::to_vec(&reply.data).map_or(0, |data| data.len());
        let fits = bytes <= room;
        Self {
            sender: reply.node.clone(),
            statuscode: reply.status,
            statusmsg: reply.message.clone(),
            reason: reply.reason.clone(),
            took_ms: reply.took,
            data: if fits { reply.data.clone() } else { Map::new() },
            data_omitted: (!fits).then_some(bytes),
        }
    }

    /// Whether the action did what was asked.
    pub fn is_ok(&self) -> bool {
        self.statuscode == ReplyStatus::Ok
    }
}
