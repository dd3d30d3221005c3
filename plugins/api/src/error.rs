//! How an action says that it did not succeed.

use muster_wire::status::{ReplyReason, ReplyStatus};
use serde_json::{Map, Value};

/// A failed action: the field's status code, words for the caller, and whatever was found out on the way.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ActionError {
    /// Never [`ReplyStatus::Ok`].
    pub status: ReplyStatus,
    /// One line for the caller: what went wrong, with what.
    pub message: String,
    /// What the status cannot say.
    pub reason: Option<ReplyReason>,
    /// Outputs that are true all the same, as the events of what was done before the failure.
    pub data: Map<String, Value>,
}

impl ActionError {
    fn new(status: ReplyStatus, message: impl Into<String>, reason: Option<ReplyReason>) -> Self {
        Self {
            status,
            message: message.into(),
            reason,
            data: Map::new(),
        }
    }

    /// The action ran and did not succeed (status 1).
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ReplyStatus::Failed, message, None)
    }

    /// An input is missing that only the action could know to be needed (status 3).
    pub fn missing_input(message: impl Into<String>) -> Self {
        Self::new(ReplyStatus::MissingData, message, None)
    }

    /// An input is wrong, and nothing was changed (status 4).
    pub fn invalid_input(message: impl Into<String>) -> Self {
        Self::new(ReplyStatus::InvalidData, message, None)
    }

    /// The node's own rules forbid it, and nothing was changed (status 5).
    pub fn denied_by_rule(message: impl Into<String>, rule: impl Into<String>) -> Self {
        Self::new(
            ReplyStatus::Other,
            message,
            Some(ReplyReason::Denied { rule: rule.into() }),
        )
    }

    /// The plugin is at fault (status 5).
    pub fn internal_error(message: impl Into<String>) -> Self {
        Self::new(ReplyStatus::Other, message, Some(ReplyReason::Broken))
    }

    /// The caller gave up (status 5).
    pub fn cancelled() -> Self {
        Self::new(
            ReplyStatus::Other,
            "cancelled before it was done",
            Some(ReplyReason::Cancelled),
        )
    }

    /// Adds outputs that are true in spite of the failure.
    #[must_use]
    pub fn with_data(mut self, data: Map<String, Value>) -> Self {
        self.data = data;
        self
    }
}
