//! The lines of a job's file. Within a schema version, kinds and fields are only added; readers ignore unknown ones.

use std::collections::BTreeSet;

use muster_base::NodeText;
use muster_calls::{CountOrPercent, RolloutLimits, RolloutStopReason};
use muster_filter::NodeFilter;
use muster_wire::Millis;
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::status::{ReplyReason, ReplyStatus};
use muster_wire::token::{AccountTrust, PublicKey};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::jobs::error::SavedJobError;
use crate::node_reply::NodeReply;

/// The output of `puppetral` with the content of a changed file, of which jobs and audit records keep digests only.
const DIFF_OUTPUT: &str = "diff";

/// Schema and version of the lines.
pub const JOB_LINES_SCHEMA: &str = "muster.job.lines.v1";

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum JobEntry {
    /// The first line: the request and its target nodes.
    Job(Box<JobHeader>),
    /// The job was resumed after an interruption.
    Resumed {
        /// Time of the resumption.
        time: Millis,
    },
    /// Run ids of all nodes, in run order. Written to disk before the first request: for a repeated run id, a node returns the state of that run and
    /// does not run again.
    Runs {
        /// The nodes and their run ids.
        runs: Vec<(Identity, Uuid)>,
    },
    /// A request to these nodes is about to be sent: from now on they may be working.
    Wave {
        /// Counted from 1, restarted by each run.
        number: usize,
        /// The nodes.
        nodes: BTreeSet<Identity>,
    },
    /// The request was sent.
    Sent {
        /// The request's id.
        request: String,
    },
    /// A node's reply.
    Result(JobReply),
    /// The broker reports no subscriber for these nodes.
    NotConnected {
        /// The nodes.
        nodes: BTreeSet<Identity>,
    },
    /// The run of the job has ended.
    End {
        /// How it ended.
        #[serde(rename = "how")]
        end: JobEnd,
        /// Time of the end.
        time: Millis,
    },
    /// A line of a later version.
    #[serde(other)]
    Unknown,
}

/// How a job ended normally.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobEnd {
    /// All nodes received the request.
    Finished,
    /// Too many nodes failed.
    Stopped,
    /// The user interrupted it.
    Interrupted,
    /// A batch could not be sent.
    Broken,
    /// All nodes received the request, and no replies were wanted.
    Unattended,
}

impl JobEnd {
    /// The end of a rollout that stopped for this reason, if any.
    pub fn of_rollout(stop: Option<RolloutStopReason>) -> Self {
        match stop {
            None => Self::Finished,
            Some(RolloutStopReason::Canary { .. } | RolloutStopReason::Failures { .. }) => {
                Self::Stopped
            }
            Some(RolloutStopReason::Interrupted) => Self::Interrupted,
            Some(RolloutStopReason::Broken) => Self::Broken,
        }
    }
}

/// The request and its target nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobHeader {
    /// Always [`JOB_LINES_SCHEMA`].
    pub schema: String,
    /// The job's id in the store.
    pub id: String,
    /// The name given by the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<SubjectName>,
    /// Start time.
    pub started: Millis,
    /// The fleet; absent from jobs of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fleet: Option<JobFleet>,
    /// The collective.
    pub collective: SubjectName,
    /// The agent.
    pub agent: String,
    /// The action.
    pub action: String,
    /// Whether the action is read-only.
    pub read_only: bool,
    /// The inputs; sensitive ones are redacted.
    pub inputs: Map<String, Value>,
    /// Names of the redacted inputs.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub sensitive: BTreeSet<String>,
    /// Names of the inputs of which only a digest was stored.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub digested: BTreeSet<String>,
    /// Description of the node selection, in English.
    pub target: String,
    /// All target nodes.
    pub nodes: BTreeSet<Identity>,
    /// What each of them must match when it gets the request.
    #[serde(default, skip_serializing_if = "NodeFilter::is_empty")]
    pub filter: NodeFilter,
    /// Batch and time limits.
    pub shaping: JobPacing,
    /// The job whose failed nodes this one retries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<String>,
}

/// The fleet that a job belongs to. A job can be continued only with a configuration of the same fleet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobFleet {
    /// The account's name, for display.
    pub name: String,
    /// Public key of the operator.
    pub operator: PublicKey,
    /// Public key of the account.
    pub account: PublicKey,
}

impl JobFleet {
    /// The fleet of this account.
    pub fn of_account(trust: &AccountTrust) -> Self {
        Self {
            name: trust.claims().name.clone(),
            operator: trust.operator_key(),
            account: trust.account_key(),
        }
    }

    /// Whether both are the same account of the same operator. Names are ignored.
    fn is_same(&self, other: &Self) -> bool {
        (self.operator, self.account) == (other.operator, other.account)
    }
}

impl JobHeader {
    /// Fails unless the job was sent to this collective of this fleet.
    pub fn check_fleet(
        &self,
        fleet: &JobFleet,
        collective: &SubjectName,
    ) -> Result<(), SavedJobError> {
        let Some(own_fleet) = &self.fleet else {
            return Err(SavedJobError::NoFleet(self.id.clone()));
        };
        if own_fleet.is_same(fleet) && self.collective == *collective {
            return Ok(());
        }
        Err(SavedJobError::OtherFleet {
            id: self.id.clone(),
            saved: Box::new((own_fleet.clone(), self.collective.clone())),
            given: Box::new((fleet.clone(), collective.clone())),
        })
    }
}

/// Batch and time limits of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobPacing {
    /// Number of canaries.
    pub canary: u32,
    /// Batch size, as `10` or `10%`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<String>,
    /// Maximum failures, in the same form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_failures: Option<String>,
    /// Pause between batches, in milliseconds.
    pub pause_ms: u64,
    /// Time limit of the action, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Maximum time until a node starts the action, in milliseconds.
    pub ttl_ms: u64,
}

impl JobPacing {
    /// The limits for the rest of a job with this number of nodes and failures so far. Sizes are those of the whole job. If the number
    /// of failures was exceeded already and the user resumes anyway, the full number is allowed again.
    pub fn remaining_limits(&self, total: usize, failed: usize) -> RolloutLimits {
        let amount = |text: &Option<String>| text.as_ref()?.parse::<CountOrPercent>().ok();
        let remaining = |maximum: CountOrPercent| {
            let maximum = maximum.count_rounded_down(total);
            CountOrPercent::Count(maximum.checked_sub(failed).unwrap_or(maximum))
        };
        RolloutLimits {
            batch: amount(&self.batch)
                .map(|batch| CountOrPercent::Count(batch.count_rounded_up(total))),
            max_failures: amount(&self.max_failures).map(remaining),
            ..RolloutLimits::default()
        }
    }
}

/// One node's reply, with the fields of a request's document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobReply {
    /// The node.
    pub sender: Identity,
    /// The status code.
    pub statuscode: ReplyStatus,
    /// The node's status message.
    pub statusmsg: NodeText,
    /// The reason of a failure, with details.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<ReplyReason>,
    /// How long the action ran on the node, in milliseconds.
    #[serde(default)]
    pub took_ms: Millis,
    /// The outputs.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub data: Map<String, Value>,
    /// Size of the outputs in bytes, if they were too large to store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_omitted: Option<usize>,
}

impl JobReply {
    /// Omits the outputs if they are larger than `max_data_bytes` bytes.
    pub(crate) fn limit_data(mut self, max_data_bytes: usize) -> Self {
        let bytes = serde_json::to_vec(&self.data).map_or(0, |data| data.len());
        if bytes > max_data_bytes {
            self.data = Map::new();
            self.data_omitted = Some(bytes);
        }
        self
    }

    /// Whether the action succeeded.
    pub fn is_ok(&self) -> bool {
        self.statuscode == ReplyStatus::Ok
    }
}

/// The record of a reply; the outputs are limited when it is written.
impl From<&NodeReply> for JobReply {
    fn from(reply: &NodeReply) -> Self {
        let NodeReply { node, status, message, reason, took, data, trace: _ } = reply;
        let mut data = data.clone();
        data.retain(|name, _| name != DIFF_OUTPUT);
        Self {
            sender: node.clone(),
            statuscode: *status,
            statusmsg: message.clone(),
            reason: reason.clone(),
            took_ms: *took,
            data,
            data_omitted: None,
        }
    }
}

/// The recorded reply, without the outputs that were too large to store.
impl From<&JobReply> for NodeReply {
    fn from(reply: &JobReply) -> Self {
        let JobReply { sender, statuscode, statusmsg, reason, took_ms, data, data_omitted: _ } =
            reply.clone();
        Self {
            node: sender,
            status: statuscode,
            message: statusmsg,
            reason,
            took: took_ms,
            trace: None,
            data,
        }
    }
}
