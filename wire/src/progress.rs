//! Progress messages: signed by a node while an action runs, for callers that requested streaming. The envelope is in [`crate::sign`].

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::Millis;
use crate::identity::{Identity, SubjectName};

/// Most progress messages that a node sends for one request. The broker permits 1024 responses per message, and the
/// final reply must always fit.
pub const MAX_PROGRESS_MESSAGES: u64 = 1000;

/// The body of a signed progress message. Unknown fields are ignored, so newer nodes can add fields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProgressMessage {
    /// The request that is being executed.
    pub request: Uuid,
    /// The name in the node's token, repeated here because the body is signed.
    pub sender: Identity,
    /// The requested agent.
    pub agent: SubjectName,
    /// The requested action.
    pub action: SubjectName,
    /// Sequence number of this node's messages for this request, from 1. A gap means a lost message.
    pub seq: u64,
    /// Events since the last message, in order. The agent defines their content.
    pub events: Vec<Value>,
    /// Number of events dropped so far because of rate limiting.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dropped: u64,
    /// The node's clock at signing, in milliseconds since the epoch.
    pub time: Millis,
}

/// Counters in a reply about the preceding progress messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgressCounts {
    /// Number of messages sent: the `seq` of the last one.
    pub messages: u64,
    /// Number of dropped events.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dropped: u64,
}

/// Decode errors of progress messages.
#[derive(Debug, thiserror::Error)]
pub enum ProgressDecodeError {
    /// The body is not valid JSON of this type.
    #[error("the body is not the JSON of a progress message")]
    Json(#[source] serde_json::Error),
    /// The sequence number is out of range.
    #[error("the progress message has the number {0}; 1 to {MAX_PROGRESS_MESSAGES} are allowed")]
    Seq(u64),
}

impl ProgressMessage {
    /// Decodes a body and validates the sequence number.
    pub fn decode(body: &[u8]) -> Result<Self, ProgressDecodeError> {
        let progress: Self = serde_json::from_slice(body).map_err(ProgressDecodeError::Json)?;
        if progress.seq == 0 || progress.seq > MAX_PROGRESS_MESSAGES {
            return Err(ProgressDecodeError::Seq(progress.seq));
        }
        Ok(progress)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
pub(crate) fn is_zero(number: &u64) -> bool {
    *number == 0
}
