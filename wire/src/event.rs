//! Fleet events: a node tells every caller that something happened on it, for example that a restart ended. Signed like replies; the envelope is in
//! [`crate::sign`], the subject in [`crate::subject`].

use muster_base::NodeText;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::Millis;
use crate::identity::{Identity, SubjectName};
use crate::limits::MAX_EVENT_TEXT_BYTES;

/// The body of a signed event. Unknown fields are ignored, so newer nodes can add fields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetEvent {
    /// The event. A node may publish an event again after a crash, with the same id.
    #[schemars(with = "String")]
    pub id: Uuid,
    /// The name in the node's token, repeated here because the body is signed.
    pub sender: Identity,
    /// What happened: `restart_ok`, `restart_failed`, `restart_timeout`, `refresh_expired`. Also a part of the subject.
    #[schemars(with = "String")]
    pub kind: SubjectName,
    /// What happened, in a sentence; at most 1024 bytes.
    pub text: NodeText,
    /// Details, which the kind defines.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub data: Map<String, Value>,
    /// When it happened, by the node's clock, in milliseconds since the epoch.
    pub time: Millis,
}

/// Decode errors of events.
#[derive(Debug, thiserror::Error)]
pub enum EventDecodeError {
    /// The body is not valid JSON of this type.
    #[error("the body is not the JSON of an event")]
    Json(#[source] serde_json::Error),
    /// The text is too long.
    #[error("the text of the event has {0} bytes; at most {MAX_EVENT_TEXT_BYTES} are allowed")]
    Text(usize),
}

impl FleetEvent {
    /// Decodes a body and checks the length of the text.
    pub fn decode(body: &[u8]) -> Result<Self, EventDecodeError> {
        let event: Self = serde_json::from_slice(body).map_err(EventDecodeError::Json)?;
        match event.text.raw().len() {
            length if length > MAX_EVENT_TEXT_BYTES => Err(EventDecodeError::Text(length)),
            _ => Ok(event),
        }
    }
}
