//! Events: one for each property that was, or in noop mode would be, changed.

use serde::{Deserialize, Serialize};

use crate::resource::ResourceValue;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangeEventStatus {
    Success,
    Failure,
    Noop,
}

/// One change of one property. Sensitive values are `[redacted]` here and in the message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChangeEvent {
    /// `User[rip]`.
    pub resource: String,
    /// `ensure`, `comment`, ...
    pub property: String,
    /// The value found; null if it was not set.
    pub previous_value: Option<ResourceValue>,
    pub desired_value: ResourceValue,
    pub status: ChangeEventStatus,
    /// Message with Puppet's wording.
    pub message: String,
}
