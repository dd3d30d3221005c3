//! Replies, signed by a node. The envelope is in [`crate::sign`].

use muster_base::NodeText;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::Millis;
use crate::identity::{Identity, SubjectName};
use crate::progress::ProgressCounts;
use crate::status::{ReplyReason, ReplyStatus};
use crate::trace::StageTiming;

/// The body of a signed reply. Unknown fields are ignored, so newer nodes can add fields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The request that this reply answers.
    pub request: Uuid,
    /// The name in the node's token, repeated here because the body is signed.
    pub sender: Identity,
    /// The requested agent.
    pub agent: SubjectName,
    /// The requested action.
    pub action: SubjectName,
    /// The result status.
    pub statuscode: ReplyStatus,
    /// The status as text: `OK`, or the error message.
    pub statusmsg: NodeText,
    /// Details that the status code does not express.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<ReplyReason>,
    /// The action's outputs.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub data: Map<String, Value>,
    /// The node's clock at signing, in milliseconds since the epoch.
    pub time: Millis,
    /// Run time of the action on the node, in milliseconds.
    #[serde(default)]
    pub took: Millis,
    /// Pipeline stage timings, if the request asked for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<StageTiming>,
    /// Progress counters, if the request asked for streaming.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<ProgressCounts>,
    /// Another daemon with the same name and key runs, as on a copy of the machine: the reply is that of one of them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cloned: bool,
}

/// The body is not valid JSON of a reply.
#[derive(Debug, thiserror::Error)]
#[error("the body is not the JSON of a reply")]
pub struct ReplyDecodeError(#[source] serde_json::Error);

impl Reply {
    /// Decodes a body.
    pub fn decode(body: &[u8]) -> Result<Self, ReplyDecodeError> {
        serde_json::from_slice(body).map_err(ReplyDecodeError)
    }
}
