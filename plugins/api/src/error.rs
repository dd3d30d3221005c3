//! How an action says that it did not succeed.

use muster_wire::status::{Reason, Status};
use serde_json::{Map, Value};

/// A failed action: the field's status code, words for the caller, and whatever was found out on the way.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ActionError {
    /// Never [`Status::Ok`].
    pub status: Status,
    /// One line for the caller: what went wrong, with what.
    pub message: String,
    /// What the status cannot say.
    pub reason: Option<Reason>,
    /// Outputs that are true all the same, as the events of what was done before the failure.
    pub data: Map<String, Value>,
}

impl ActionError {
    fn new(status: Status, message: impl Into<String>, reason: Option<Reason>) -> Self {
        Self {
            status,
            message: message.into(),
            reason,
            data: Map::new(),
        }
    }

    /// The action ran and did not succeed (status 1).
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(Status::Failed, message, None)
    }

    /// An input is missing that only the action could know to be needed (status 3).
    pub fn missing(message: impl Into<String>) -> Self {
        Self::new(Status::MissingData, message, None)
    }

    /// An input is wrong, and nothing was changed (status 4).
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Status::InvalidData, message, None)
    }

    /// The node's own rules forbid it, and nothing was changed (status 5).
    pub fn denied(message: impl Into<String>, rule: impl Into<String>) -> Self {
        Self::new(
            Status::Other,
            message,
            Some(Reason::Denied { rule: rule.into() }),
        )
    }

    /// The plugin is at fault (status 5).
    pub fn broken(message: impl Into<String>) -> Self {
        Self::new(Status::Other, message, Some(Reason::Broken))
    }

    /// The caller gave up (status 5).
    pub fn cancelled() -> Self {
        Self::new(
            Status::Other,
            "cancelled before it was done",
            Some(Reason::Cancelled),
        )
    }

    /// Adds outputs that are true in spite of the failure.
    #[must_use]
    pub fn with_data(mut self, data: Map<String, Value>) -> Self {
        self.data = data;
        self
    }
}
