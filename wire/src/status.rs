//! The result of a request on a node: `MCollective`'s six status codes, and a structured reason.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The status codes of `MCollective`'s RPC, unchanged. On the wire: the number.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "u8", into = "u8")]
pub enum ReplyStatus {
    /// 0: the action succeeded.
    Ok,
    /// 1: the action ran and failed; the reply may still contain data.
    Failed,
    /// 2: the node has no such agent or action.
    UnknownAction,
    /// 3: a required input is missing.
    MissingData,
    /// 4: an input has the wrong type or an invalid value, or is not declared.
    InvalidData,
    /// 5: another error: refused, timed out, or broken.
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
        use ReplyStatus::{Failed, InvalidData, MissingData, Ok, Other, UnknownAction};
        let all = [Ok, Failed, UnknownAction, MissingData, InvalidData, Other];
        all.get(usize::from(code)).copied().ok_or(UnknownStatus(code))
    }
}

/// The structured reason of a failure. On the wire: an object with `kind` and the fields of that kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ReplyReason {
    /// The action did not end before its timeout.
    Timeout {
        /// The timeout in milliseconds.
        after_ms: u64,
    },
    /// The node is overloaded; the action was not started.
    Busy {
        /// Time after which to retry, in milliseconds from now.
        retry_after_ms: u64,
    },
    /// The node's policy denies the request.
    Denied {
        /// The deciding rule: file and line, or `default`.
        rule: String,
    },
    /// The request's time to live has expired, or the clocks of caller and node differ.
    Expired {
        /// Age of the request by the node's clock, in milliseconds; negative if its issue time is in the future.
        age_ms: i64,
    },
    /// The request names the node, but the node does not match its filter: its data changed after discovery, or the discovery source was wrong.
    NotMatched,
    /// The caller cancelled the request.
    Cancelled,
    /// The answer exceeds the size limit of a reply.
    Oversized {
        /// Size of the unsent answer in bytes.
        bytes: u64,
    },
    /// The plugin failed: it panicked, or its answer does not match its DDL.
    Broken,
    /// The daemon is stopping and accepts no requests.
    Stopping,
    /// The daemon was killed, or its machine lost power, while the action ran; the next daemon reports it. The action may have changed the node.
    Lost,
}

impl ReplyReason {
    /// The identifier of the reason, as in `kind`.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Timeout { .. } => "timeout",
            Self::Busy { .. } => "busy",
            Self::Denied { .. } => "denied",
            Self::Expired { .. } => "expired",
            Self::NotMatched => "not_matched",
            Self::Cancelled => "cancelled",
            Self::Oversized { .. } => "oversized",
            Self::Broken => "broken",
            Self::Stopping => "stopping",
            Self::Lost => "lost",
        }
    }
}
