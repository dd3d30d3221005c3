//! Progress: what a node signs while an action still runs, for a caller that asked to hear it. Not its envelope (see [`crate::sign`]).

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::Millis;
use crate::identity::{Identity, SubjectName};

/// Most progress messages that a node sends for one request. The broker lets a node answer one message 1024 times, and the
/// reply itself must always get through.
pub const MAX_PROGRESS_MESSAGES: u64 = 1000;

/// The body of a signed progress message. Unknown fields are ignored: a newer node may tell more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProgressMessage {
    /// The request that is being worked on.
    pub request: Uuid,
    /// Who tells: the name in the node's token, repeated so that it is signed.
    pub sender: Identity,
    /// The agent that was asked.
    pub agent: SubjectName,
    /// The action that was asked.
    pub action: SubjectName,
    /// Counts this node's messages of this request, from 1 without gaps: a gap is a message that was lost.
    pub seq: u64,
    /// What happened since the last message, in order; what an event holds is the agent's business.
    pub events: Vec<Value>,
    /// How many events the node has given up so far, because they came faster than they may be sent.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dropped: u64,
    /// The node's clock when it signed, in milliseconds since the epoch.
    pub time: Millis,
}

/// What a reply says about the progress messages before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgressCounts {
    /// How many messages were sent: the `seq` of the last one.
    pub messages: u64,
    /// How many events were not sent.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dropped: u64,
}

/// Why a decoded progress message is not one.
#[derive(Debug, thiserror::Error)]
pub enum ProgressDecodeError {
    /// Not JSON of this shape.
    #[error("the message is not valid JSON of a progress message")]
    Json(#[source] serde_json::Error),
    /// Counts from 1 to what a node may send.
    #[error("the progress message has the number {0}; 1 to {MAX_PROGRESS_MESSAGES} are allowed")]
    Seq(u64),
}

impl ProgressMessage {
    /// Decodes a body and checks what types cannot say.
    pub fn decode(body: &[u8]) -> Result<Self, ProgressDecodeError> {
        let progress: Self = serde_json::from_slice(body).map_err(ProgressDecodeError::Json)?;
        if progress.seq == 0 || progress.seq > MAX_PROGRESS_MESSAGES {
            return Err(ProgressDecodeError::Seq(progress.seq));
        }
        Ok(progress)
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature serde asks for"
)]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
