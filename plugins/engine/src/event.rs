//! What happened: one event for each property that was, or would be, changed.

use serde::{Deserialize, Serialize};

use crate::resource::ResourceValue;

/// How a change went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangeEventStatus {
    /// Changed.
    Success,
    /// Tried and failed.
    Failure,
    /// Would be changed.
    Noop,
}

/// One change of one property. Sensitive values are `[redacted]` here and in the message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChangeEvent {
    /// `User[rip]`.
    pub resource: String,
    /// `ensure`, `comment`, ...
    pub property: String,
    /// What was found; null when it was not set.
    pub previous_value: Option<ResourceValue>,
    /// What is desired.
    pub desired_value: ResourceValue,
    /// How it went.
    pub status: ChangeEventStatus,
    /// In Puppet's words.
    pub message: String,
}
