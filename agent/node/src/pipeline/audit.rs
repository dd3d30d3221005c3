//! Writes audit records: before a change, after every action, and at every refusal.

use muster_base::duration_millis;
use muster_host::CallOutcome;
use muster_wire::status::{ReplyReason, ReplyStatus};
use muster_wire::token::UserRole;
use serde_json::Map;

use super::admission::RefusedRequest;
use super::passed_values::{AcceptedRequest, VerifiedRequest};
use crate::core::DaemonCore;
use crate::core::audit::{AuditRecord, AuditVerdict as Verdict, RecordClass};
use crate::core::begun::BegunRequest;

/// Returns a refusal if the log must be complete and cannot be written. An action that amounts to root access waits until its record is in the file,
/// unless the node is configured otherwise.
pub(super) async fn record_start(
    core: &DaemonCore,
    accepted: &AcceptedRequest,
) -> Result<(), CallOutcome> {
    if accepted.read_only {
        return Ok(());
    }
    let record = AuditRecord {
        data: accepted.redacted.clone(),
        rule: Some(accepted.rule.clone()),
        approval: accepted.approver.clone(),
        ..new_record(core, &accepted.verified, Verdict::Started, RecordClass::Change)
    };
    let recorded = core.journals.audit.record_start(&record, accepted.dangerous).await;
    recorded.map_err(|error| {
        let message =
            format!("refused, because the request could not be recorded in the audit log: {error}");
        CallOutcome::new_refusal(ReplyStatus::Other, message, None)
    })
}

/// An action that never started, because the node was busy or could not store the request, is recorded as refused.
pub(super) fn record_end(
    core: &DaemonCore,
    accepted: &AcceptedRequest,
    outcome: &CallOutcome,
    started: bool,
) {
    let verdict = if started { Verdict::Executed } else { Verdict::Refused };
    let class = if accepted.read_only { RecordClass::Read } else { RecordClass::Change };
    let ended = AuditRecord {
        data: accepted.redacted.clone(),
        rule: Some(accepted.rule.clone()),
        approval: accepted.approver.clone(),
        status: Some(outcome.status),
        reason: outcome.reason.as_ref().map(ReplyReason::as_str),
        took_ms: Some(duration_millis(outcome.took)),
        ..new_record(core, &accepted.verified, verdict, class)
    };
    write_record(core, &ended);
}

/// Records the end of a request that an earlier daemon had begun. The inputs are in the record of its start.
pub fn record_lost(core: &DaemonCore, begun: &BegunRequest, outcome: &CallOutcome) {
    let now = core.now();
    let ended = AuditRecord {
        class: if begun.changes { RecordClass::Change } else { RecordClass::Read },
        time: now,
        verdict: Verdict::Executed,
        request: begun.request,
        caller: begun.caller.clone(),
        caller_key: Some(begun.caller_key.clone()),
        caller_role: begun.caller_role.parse().unwrap_or(UserRole::Caller),
        collective: begun.collective.clone(),
        agent: begun.agent.clone(),
        action: begun.action.clone(),
        traceparent: None,
        data: Map::new(),
        rule: None,
        approval: None,
        schedule: None,
        status: Some(outcome.status),
        reason: outcome.reason.as_ref().map(ReplyReason::as_str),
        took_ms: Some(now.saturating_sub(begun.since)),
    };
    write_record(core, &ended);
}

/// Records the refusal of an authenticated caller. Omits the inputs: not all were validated, so it is unknown which are secret.
pub(super) fn record_refusal(core: &DaemonCore, refused: &RefusedRequest) {
    let rule = match &refused.reason {
        Some(ReplyReason::Denied { rule }) => Some(rule.clone()),
        _ => None,
    };
    let verdict = if rule.is_some() { Verdict::Denied } else { Verdict::Refused };
    let refusal = AuditRecord {
        rule,
        status: Some(refused.status),
        reason: refused.reason.as_ref().map(ReplyReason::as_str),
        ..new_record(core, &refused.verified, verdict, RecordClass::Refusal)
    };
    write_record(core, &refusal);
}

fn new_record(
    core: &DaemonCore,
    verified: &VerifiedRequest,
    verdict: Verdict,
    class: RecordClass,
) -> AuditRecord {
    let request = &verified.request;
    AuditRecord {
        class,
        time: core.now(),
        verdict,
        request: request.id,
        caller: request.caller.clone(),
        caller_key: Some(verified.caller.key.to_string()),
        caller_role: verified.caller.role,
        collective: request.collective.clone(),
        agent: request.agent.clone(),
        action: request.action.clone(),
        traceparent: request.traceparent,
        data: Map::new(),
        rule: None,
        approval: None,
        schedule: verified.schedule.clone(),
        status: None,
        reason: None,
        took_ms: None,
    }
}

/// Writes a record after the fact: a failure can only be logged.
fn write_record(core: &DaemonCore, record: &AuditRecord) {
    if let Err(error) = core.journals.audit.record_decision(record) {
        tracing::error!(%error, request = %record.request, "cannot write an audit record");
    }
}
