//! The result of a request on a node: `MCollective`'s six status codes, and a structured reason.

use serde::{Deserialize, Serialize};

/// The status codes of `MCollective`'s RPC, unchanged. On the wire: the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "u8", into = "u8")]
pub enum ReplyStatus {
    /// 0: the action did what was asked.
    Ok,
    /// 1: the action ran and failed; its data may still say how far it came.
    Failed,
    /// 2: the node has no such agent or action.
    UnknownAction,
    /// 3: a required input is missing.
    MissingData,
    /// 4: an input has the wrong type, an illegal value, or is not declared.
    InvalidData,
    /// 5: anything else: refused, timed out, broken.
    Other,
}

/// A status code outside the protocol.
#[derive(Debug, thiserror::Error)]
#[error("status code {0} is not one of 0 to 5")]
pub struct UnknownStatus(u8);

impl ReplyStatus {
    /// The number on the wire.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The standard `MCollective` text for the status, as shown beside a node's name.
    pub fn display_text(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Failed => "Request Aborted",
            Self::UnknownAction => "Unknown Action",
            Self::MissingData => "Missing Request Data",
            Self::InvalidData => "Invalid Request Data",
            Self::Other => "Unknown Request Status",
        }
    }
}

impl From<ReplyStatus> for u8 {
    fn from(status: ReplyStatus) -> Self {
        status.code()
    }
}

impl TryFrom<u8> for ReplyStatus {
    type Error = UnknownStatus;
    fn try_from(code: u8) -> Result<Self, UnknownStatus> {
        Ok(match code {
            0 => Self::Ok,
            1 => Self::Failed,
            2 => Self::UnknownAction,
            3 => Self::MissingData,
            4 => Self::InvalidData,
            5 => Self::Other,
            other => return Err(UnknownStatus(other)),
        })
    }
}

/// What the status code cannot say. On the wire: an object with `kind` and the kind's own fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ReplyReason {
    /// The action did not end before its deadline.
    Timeout {
        /// How long it was given, in milliseconds.
        after_ms: u64,
    },
    /// The node has too much to do; nothing was started.
    Busy {
        /// When asking again is sensible, in milliseconds from now.
        retry_after_ms: u64,
    },
    /// The node's policy does not let this caller do this.
    Denied {
        /// The rule that decided, in the policy's own words: file and line, or `default`.
        rule: String,
    },
    /// The request's time to live had passed, or its clock is not ours.
    Expired {
        /// Age of the request by the node's clock, in milliseconds; negative when it comes from the future.
        age_ms: i64,
    },
    /// The caller took the request back.
    Cancelled,
    /// The answer was larger than a reply may be.
    Oversized {
        /// Size of the answer that was not sent, in bytes.
        bytes: u64,
    },
    /// The plugin broke: it panicked, or answered what its schema does not allow.
    Broken,
    /// The daemon is shutting down and takes no new work.
    Stopping,
}

impl ReplyReason {
    /// The identifier of the reason, as in `kind`.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Timeout { .. } => "timeout",
            Self::Busy { .. } => "busy",
            Self::Denied { .. } => "denied",
            Self::Expired { .. } => "expired",
            Self::Cancelled => "cancelled",
            Self::Oversized { .. } => "oversized",
            Self::Broken => "broken",
            Self::Stopping => "stopping",
        }
    }
}
