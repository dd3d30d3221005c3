//! The error that an action returns when it fails.

use std::error::Error;
use std::time::Duration;

use muster_base::{duration_millis, error_chain};
use muster_system::SystemError;
use muster_wire::status::{ReplyReason, ReplyStatus};
use serde::Serialize;
use serde_json::{Map, Value};

/// A failed action: the status code, a message for the caller, and the outputs collected before the failure.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ActionError {
    /// Never [`ReplyStatus::Ok`].
    pub status: ReplyStatus,
    /// One line for the caller: what failed, and with which value.
    pub message: String,
    /// Detail that the status code does not carry.
    pub reason: Option<ReplyReason>,
    /// Outputs that are valid despite the failure, such as events of work done before it.
    pub data: Map<String, Value>,
}

impl ActionError {
    fn new(status: ReplyStatus, message: impl Into<String>, reason: Option<ReplyReason>) -> Self {
        Self { status, message: message.into(), reason, data: Map::new() }
    }

    /// The action ran and did not succeed (status 1).
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ReplyStatus::Failed, message, None)
    }

    /// An operation of the action failed (status 1). The message names the causes as well.
    pub fn from_cause(error: impl Error) -> Self {
        Self::failed(error_chain(&error))
    }

    /// An input is missing whose need only the action can determine (status 3).
    pub fn missing_input(message: impl Into<String>) -> Self {
        Self::new(ReplyStatus::MissingData, message, None)
    }

    /// An input is wrong; nothing was changed (status 4).
    pub fn invalid_input(message: impl Into<String>) -> Self {
        Self::new(ReplyStatus::InvalidData, message, None)
    }

    /// A rule of the node forbids the action; nothing was changed (status 5).
    pub fn denied_by_rule(message: impl Into<String>, rule: impl Into<String>) -> Self {
        Self::new(ReplyStatus::Other, message, Some(ReplyReason::Denied { rule: rule.into() }))
    }

    /// The plugin has a defect (status 5).
    pub fn internal_error(message: impl Into<String>) -> Self {
        Self::new(ReplyStatus::Other, message, Some(ReplyReason::Broken))
    }

    /// The action cannot start now (status 5); suggests when to retry.
    pub fn busy(message: impl Into<String>, retry_after: Duration) -> Self {
        let retry_after_ms = duration_millis(retry_after);
        Self::new(ReplyStatus::Other, message, Some(ReplyReason::Busy { retry_after_ms }))
    }

    /// The caller cancelled the request (status 5).
    pub fn cancelled() -> Self {
        Self::new(
            ReplyStatus::Other,
            "cancelled before the action ended",
            Some(ReplyReason::Cancelled),
        )
    }

    /// Adds outputs that are valid despite the failure.
    #[must_use]
    pub fn with_data(mut self, data: Map<String, Value>) -> Self {
        self.data = data;
        self
    }

    /// Adds typed outputs that are valid despite the failure; none if they are no JSON object.
    #[must_use]
    pub fn with_output(self, output: &impl Serialize) -> Self {
        match serde_json::to_value(output) {
            Ok(Value::Object(data)) => self.with_data(data),
            _ => self,
        }
    }
}

impl From<SystemError> for ActionError {
    fn from(error: SystemError) -> Self {
        Self::from_cause(error)
    }
}
