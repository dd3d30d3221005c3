//! One line of the audit log: the caller, the request, the decision and its rule, and the outcome.
//!
//! The data must be redacted by the caller: this module does not know which inputs are sensitive.

use std::path::{Path, PathBuf};

use muster_api::{CallContext, WorkEnd};
use muster_base::{duration_millis, format_rfc3339};
use muster_wire::Millis;
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::status::ReplyStatus;
use muster_wire::token::UserRole;
use muster_wire::trace::TraceContext;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use uuid::Uuid;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditVerdict {
    /// The action is about to run and may change the node; a later record contains its outcome.
    Started,
    /// The action ran; `statuscode` contains its outcome.
    Executed,
    /// Work that an action had begun ended after its reply; `reason` and `data` say how.
    Ended,
    Denied,
    /// It did not run for another reason: stale, invalid, busy.
    Refused,
}

/// The audit file that a record goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordClass {
    /// An action that may change the node: the records before and after it.
    Change,
    /// A request that was not executed.
    Refusal,
    /// An action that changes nothing.
    Read,
}

impl RecordClass {
    /// The path of this class's file beside that of changes: `audit-reads.log` beside `audit.log`.
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

/// A decision about a request of an authenticated caller.
#[derive(Debug, Clone, Serialize)]
pub struct AuditRecord {
    #[serde(skip)]
    pub class: RecordClass,
    /// When it was decided, by the node's clock.
    #[serde(serialize_with = "serialize_time")]
    pub time: Millis,
    pub verdict: AuditVerdict,
    pub request: Uuid,
    pub caller: Identity,
    /// The public key that signed the request (`U...`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller_key: Option<String>,
    /// The role of the token that signed the request; omitted for callers.
    #[serde(skip_serializing_if = "is_caller", serialize_with = "serialize_role")]
    pub caller_role: UserRole,
    pub collective: SubjectName,
    pub agent: SubjectName,
    pub action: SubjectName,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<TraceContext>,
    /// The inputs, with sensitive ones redacted.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub data: Map<String, Value>,
    /// The policy rule that decided, if the request reached the policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The approver, if a second person's approval was required.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalRecord>,
    /// The schedule, if a scheduler sent the request in the name of the schedule's author, who is the caller.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ScheduleRecord>,
    #[serde(rename = "statuscode", skip_serializing_if = "Option::is_none")]
    pub status: Option<ReplyStatus>,
    /// The reason, if the status alone does not determine it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// How long the action ran, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
}

impl AuditRecord {
    /// The end of work that went on after the reply to its request; `None` if no request began it.
    pub fn of_work_end(call: &CallContext, end: &WorkEnd, now: Millis) -> Option<Self> {
        let sender = call.sender.as_ref()?;
        Some(Self {
            class: RecordClass::Change,
            time: now,
            verdict: AuditVerdict::Ended,
            request: call.request,
            caller: call.caller.clone(),
            caller_key: Some(sender.key.to_string()),
            caller_role: sender.role,
            collective: sender.collective.clone(),
            agent: call.agent.clone(),
            action: call.action.clone(),
            traceparent: call.trace,
            data: end.data.clone(),
            rule: None,
            approval: None,
            schedule: None,
            status: None,
            reason: Some(end.reason),
            took_ms: Some(duration_millis(end.took)),
        })
    }
}

/// The schedule that a request was sent for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ScheduleRecord {
    pub schedule: SubjectName,
    pub scheduler: Identity,
}

/// The approval of a request by a second person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ApprovalRecord {
    pub approver: Identity,
    /// The public key that signed the approval (`U...`).
    pub approver_key: String,
    /// The approved proposal.
    pub approval: Uuid,
}

/// Messages of unauthenticated senders, or a count of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct RefusalRecord {
    #[serde(serialize_with = "serialize_time")]
    pub(super) time: Millis,
    pub(super) verdict: AuditVerdict,
    pub(super) reason: &'static str,
    /// The unverified claim of the last message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) claimed: Option<String>,
    /// The number of messages that the line counts.
    pub(super) count: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct LostRecords {
    #[serde(serialize_with = "serialize_time")]
    pub(super) time: Millis,
    /// Always `lost`.
    pub(super) verdict: &'static str,
    pub(super) count: u64,
}

/// Includes the newline.
pub(super) fn encode_line(record: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    let mut line = serde_json::to_vec(record)?;
    line.push(b'\n');
    Ok(line)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
fn serialize_time<S: Serializer>(time: &Millis, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(&format_rfc3339(*time))
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
fn is_caller(role: &UserRole) -> bool {
    *role == UserRole::Caller
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
fn serialize_role<S: Serializer>(role: &UserRole, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(role.as_str())
}
