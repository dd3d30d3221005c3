//! Request tracing: the W3C trace context of a request, and the stage timings that a node reports on demand.
//!
//! Muster exports no spans, so a trace context is passed on unchanged: an unrecorded parent span would break the
//! trace. Source: W3C Trace Context, level 1, `traceparent`.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The environment variable that passes a trace context between programs.
pub const TRACEPARENT_VARIABLE: &str = "TRACEPARENT";

/// Length in bytes of a `traceparent` of version 00.
const TRACEPARENT_BYTES: usize = 55;

/// A trace id with its parent span: `00-<32 hex digits>-<16 hex digits>-<2 hex digits>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TraceContext {
    trace: u128,
    parent: u64,
    flags: u8,
}

/// The text is not a valid `traceparent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a W3C traceparent, as in 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")]
pub struct TraceContextError;

impl TraceContext {
    /// Starts a trace with `trace` as its id and the last half of `span` as the span id. Both must be UUIDs of version 4 or 7, whose
    /// halves are never zero. The trace is marked as sampled.
    pub fn new_trace(trace: Uuid, span: Uuid) -> Self {
        Self { trace: trace.as_u128(), parent: span.as_u64_pair().1, flags: 1 }
    }

    /// Parses a text. For later versions only the fields of version 00 are read, as the standard requires.
    pub fn parse(text: &str) -> Result<Self, TraceContextError> {
        Self::parse_bytes(text.as_bytes()).ok_or(TraceContextError)
    }

    fn parse_bytes(bytes: &[u8]) -> Option<Self> {
        let (head, rest) = bytes.split_at_checked(TRACEPARENT_BYTES)?;
        let mut fields = head.split(|byte| *byte == b'-');
        let mut field = |digits: usize| parse_hex(fields.next()?, digits);
        let (version, trace, parent, flags) = (field(2)?, field(32)?, field(16)?, field(2)?);
        let is_well_formed = match version {
            0 => rest.is_empty(),
            0xff => false,
            _ => rest.first().is_none_or(|byte| *byte == b'-'),
        };
        let (parent, flags) = (u64::try_from(parent).ok()?, u8::try_from(flags).ok()?);
        (is_well_formed && trace != 0 && parent != 0).then_some(Self { trace, parent, flags })
    }

    /// The trace id, as 32 hex digits.
    pub fn trace_id(&self) -> String {
        format!("{:032x}", self.trace)
    }
}

/// Parses exactly `count` lower-case hex digits.
fn parse_hex(digits: &[u8], count: usize) -> Option<u128> {
    let is_valid = digits.len() == count
        && digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    let digits = std::str::from_utf8(digits).ok().filter(|_| is_valid)?;
    u128::from_str_radix(digits, 16).ok()
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { trace, parent, flags } = self;
        write!(f, "00-{trace:032x}-{parent:016x}-{flags:02x}")
    }
}

impl_text_form!(TraceContext, TraceContextError);

/// One stage of a request on a node, and its duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StageTiming {
    /// The stage.
    pub stage: StageName,
    /// Duration in microseconds, by the node's monotonic clock.
    pub us: u64,
    /// Whether the request was refused in this stage.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refused: bool,
}

/// The stages of a node's pipeline, in order.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum StageName {
    /// Parses the subject of the message.
    Decode,
    /// Verifies the token and the signature of the sender.
    Verify,
    /// Checks that the request is neither expired, nor from the future, nor a replay.
    Fresh,
    /// Checks whether the target matches this node.
    Match,
    /// Validates the inputs against the DDL.
    Validate,
    /// Checks the node's policy.
    Authorise,
    /// Writes the audit log, before and after the action.
    Audit,
    /// Writes the request to the journal on disk, so that it cannot run twice.
    Journal,
    /// Waits for a free slot of the agent.
    Queue,
    /// Runs the action.
    Run,
    /// Checks the answer against the DDL and the size limit.
    Check,
    /// Writes and signs the reply.
    Reply,
    /// An unknown stage of a newer version.
    #[serde(other)]
    Other,
}

impl StageName {
    /// The identifier, as on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Decode => "decode",
            Self::Verify => "verify",
            Self::Fresh => "fresh",
            Self::Match => "match",
            Self::Validate => "validate",
            Self::Authorise => "authorise",
            Self::Audit => "audit",
            Self::Journal => "journal",
            Self::Queue => "queue",
            Self::Run => "run",
            Self::Check => "check",
            Self::Reply => "reply",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for StageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
