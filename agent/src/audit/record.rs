//! One line of the audit log: who asked what, what was decided by which rule, and how it ended.
//!
//! The data must come redacted: this room does not know which inputs are sensitive.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use muster_wire::Millis;
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::status::ReplyStatus;
use muster_wire::token::UserRole;
use muster_wire::trace::TraceContext;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use uuid::Uuid;

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditVerdict {
    /// The action is about to be run, and may change the node; another record tells how it ended.
    Started,
    /// The action was run; `statuscode` says how it ended.
    Executed,
    /// The caller may not.
    Denied,
    /// It was not run for another reason: stale, invalid, busy.
    Refused,
}

/// Which of the daemon's files a record goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordClass {
    /// An action that may change the node: before it, and how it ended.
    Change,
    /// A request that was not carried out.
    Refusal,
    /// An action that changes nothing.
    Read,
}

impl RecordClass {
    /// The path of this class beside that of changes: `audit-reads.log` beside `audit.log`.
    pub fn class_path(self, path: &Path) -> PathBuf {
        let suffix = match self {
            Self::Change => return path.to_owned(),
            Self::Refusal => "-refusals",
            Self::Read => "-reads",
        };
        let mut name = path.file_stem().unwrap_or_default().to_owned();
        name.push(suffix);
        if let Some(extension) = path.extension() {
            name.push(".");
            name.push(extension);
        }
        path.with_file_name(name)
    }
}

/// A decision about a request of a caller that proved who it is.
#[derive(Debug, Clone, Serialize)]
pub struct AuditRecord {
    /// The file that it belongs to.
    #[serde(skip)]
    pub class: RecordClass,
    /// When it was decided, by the node's clock.
    #[serde(serialize_with = "serialize_time")]
    pub time: Millis,
    /// What became of it.
    pub verdict: AuditVerdict,
    /// The request.
    pub request: Uuid,
    /// Who asked.
    pub caller: Identity,
    /// The public key that signed the request (`U...`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller_key: Option<String>,
    /// The role of the token that signed it; left out for callers.
    #[serde(skip_serializing_if = "is_caller", serialize_with = "serialize_role")]
    pub caller_role: UserRole,
    /// The collective.
    pub collective: SubjectName,
    /// The agent.
    pub agent: SubjectName,
    /// The action.
    pub action: SubjectName,
    /// The trace that it is part of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<TraceContext>,
    /// The inputs, without what is sensitive.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub data: Map<String, Value>,
    /// The policy's rule that decided, if it came so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Who approved it, where it took a second person.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalRecord>,
    /// The status that was replied.
    #[serde(rename = "statuscode", skip_serializing_if = "Option::is_none")]
    pub status: Option<ReplyStatus>,
    /// The word of the reason, where the status alone does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// How long the action ran, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
}

/// The second person behind a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ApprovalRecord {
    /// Who approved.
    pub approver: Identity,
    /// The public key that signed the approval (`U...`).
    pub approver_key: String,
    /// The proposal that was approved.
    pub approval: Uuid,
}

/// Messages without a caller to believe, or a count of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct RefusalRecord {
    #[serde(serialize_with = "serialize_time")]
    pub(super) time: Millis,
    pub(super) verdict: AuditVerdict,
    pub(super) reason: &'static str,
    /// What the last of them said of itself. Not to be believed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) claimed: Option<String>,
    /// How many messages the line stands for.
    pub(super) count: u64,
}

/// Records that could not be written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct LostRecords {
    #[serde(serialize_with = "serialize_time")]
    pub(super) time: Millis,
    /// Always `lost`.
    pub(super) verdict: &'static str,
    pub(super) count: u64,
}

/// A record as one line of JSON, with its end. What cannot be said in JSON cannot be in a record.
pub(super) fn encode_line(record: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    let mut line = serde_json::to_vec(record)?;
    line.push(b'\n');
    Ok(line)
}

/// RFC 3339 in UTC with milliseconds: `2026-01-31T23:59:59.123Z`.
pub(super) fn format_rfc3339(time: Millis) -> String {
    let instant = i64::try_from(time)
        .ok()
        .and_then(|ms| Timestamp::from_millisecond(ms).ok());
    let instant = instant.unwrap_or(Timestamp::MAX);
    format!("{instant:.3}")
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature serde asks for"
)]
fn serialize_time<S: Serializer>(time: &Millis, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(&format_rfc3339(*time))
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature serde asks for"
)]
fn is_caller(role: &UserRole) -> bool {
    *role == UserRole::Caller
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature serde asks for"
)]
fn serialize_role<S: Serializer>(role: &UserRole, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(role.as_str())
}
