//! What the audit log is told, and when: before a change, after every action, and at every refusal.

use std::time::Duration;

use muster_host::Outcome;
use muster_wire::status::{Reason, Status};
use serde_json::Map;

use super::{Accepted, Asked, Refused};
use crate::audit::{Approval, Outcome as Verdict, Record, RecordClass};
use crate::core::Core;

/// Before the action. When the log must not miss anything and cannot be written, the outcome is a refusal.
pub(super) fn begun(core: &Core, accepted: &Accepted) -> Result<(), Outcome> {
    if accepted.read_only {
        return Ok(());
    }
    let record = Record {
        data: accepted.redacted.clone(),
        rule: Some(accepted.rule.clone()),
        approval: approval(accepted),
        ..record(
            core,
            &accepted.asked,
            (Verdict::Started, RecordClass::Change),
        )
    };
    core.audit.record(&record).map_err(|error| Outcome {
        status: Status::Other,
        message: format!("refused, because it could not be recorded: {error}"),
        reason: None,
        data: Map::new(),
        queued: Duration::ZERO,
        took: Duration::ZERO,
    })
}

/// After the action. One that never began, because the node was busy or could not remember the request, is recorded as refused.
pub(super) fn ended(core: &Core, accepted: &Accepted, outcome: &Outcome, began: bool) {
    let verdict = if began {
        Verdict::Executed
    } else {
        Verdict::Refused
    };
    let class = if accepted.read_only {
        RecordClass::Read
    } else {
        RecordClass::Change
    };
    let ended = Record {
        data: accepted.redacted.clone(),
        rule: Some(accepted.rule.clone()),
        approval: approval(accepted),
        status: Some(outcome.status),
        reason: outcome.reason.as_ref().map(Reason::word),
        took_ms: Some(u64::try_from(outcome.took.as_millis()).unwrap_or(u64::MAX)),
        ..record(core, &accepted.asked, (verdict, class))
    };
    write(core, &ended);
}

/// When an authentic caller is refused. Its inputs are left out: they were not all validated, so it is not known which are secret.
pub(super) fn refused(core: &Core, refused: &Refused) {
    let rule = match &refused.reason {
        Some(Reason::Denied { rule }) => Some(rule.clone()),
        _ => None,
    };
    let verdict = if rule.is_some() {
        Verdict::Denied
    } else {
        Verdict::Refused
    };
    let refusal = Record {
        rule,
        status: Some(refused.status),
        reason: refused.reason.as_ref().map(Reason::word),
        ..record(core, &refused.asked, (verdict, RecordClass::Refusal))
    };
    write(core, &refusal);
}

/// The second person, for the record.
fn approval(accepted: &Accepted) -> Option<Approval> {
    let approver = accepted.approver.as_ref()?;
    Some(Approval {
        approver: approver.identity.clone(),
        approver_key: approver.key.clone(),
        approval: approver.proposal,
    })
}

fn record(core: &Core, asked: &Asked, (verdict, class): (Verdict, RecordClass)) -> Record {
    let request = &asked.request;
    Record {
        class,
        time: core.clock.now(),
        verdict,
        request: request.id,
        caller: request.caller.clone(),
        caller_key: Some(asked.caller.key.to_string()),
        caller_role: asked.caller.role,
        collective: request.collective.clone(),
        agent: request.agent.clone(),
        action: request.action.clone(),
        traceparent: request.traceparent,
        data: Map::new(),
        rule: None,
        approval: None,
        status: None,
        reason: None,
        took_ms: None,
    }
}

/// What happened has happened: a record that fails now can only be told to the log.
fn write(core: &Core, record: &Record) {
    if let Err(error) = core.audit.record(record) {
        tracing::error!(%error, request = %record.request, "not recorded");
    }
}
