//! A reply: what a node signs. Not its envelope (see [`crate::sign`]).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::Millis;
use crate::identity::{Identity, SubjectName};
use crate::progress::ProgressCounts;
use crate::status::{ReplyReason, ReplyStatus};
use crate::trace::StageTiming;

/// The body of a signed reply. Unknown fields are ignored: a newer node may tell more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The request that is answered.
    pub request: Uuid,
    /// Who answers: the name in the node's token, repeated so that it is signed.
    pub sender: Identity,
    /// The agent that was asked.
    pub agent: SubjectName,
    /// The action that was asked.
    pub action: SubjectName,
    /// How it ended.
    pub statuscode: ReplyStatus,
    /// The status in words; `OK`, or what went wrong.
    pub statusmsg: String,
    /// What the code cannot say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<ReplyReason>,
    /// The action's outputs.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub data: Map<String, Value>,
    /// The node's clock when it signed, in milliseconds since the epoch.
    pub time: Millis,
    /// How long the action ran on the node, in milliseconds.
    #[serde(default)]
    pub took: Millis,
    /// The way through the node, if the request asked for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<StageTiming>,
    /// What was told before this reply, if progress was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<ProgressCounts>,
}

/// Why a decoded reply is not one.
#[derive(Debug, thiserror::Error)]
#[error("the reply is not valid JSON of a reply")]
pub struct ReplyDecodeError(#[source] serde_json::Error);

impl Reply {
    /// Decodes a body.
    pub fn decode(body: &[u8]) -> Result<Self, ReplyDecodeError> {
        serde_json::from_slice(body).map_err(ReplyDecodeError)
    }
}
