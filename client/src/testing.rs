//! Sample reports and runs. The tests of `rpc`, which renders them, include this file.

use std::time::Duration;

use muster_calls::runs::RunOutcome;
use muster_client::{EndedRun, NodeReply, PuppetRunsReport};
use muster_wire::status::ReplyStatus;
use serde_json::{Value, json};
use uuid::Uuid;

/// A reply that took 3 ms.
pub(crate) fn reply(node: &str, code: u8, message: &str, data: Value) -> NodeReply {
    NodeReply {
        node: node.parse().unwrap(),
        status: code.try_into().unwrap(),
        message: message.to_owned().into(),
        reason: None,
        data: serde_json::from_value(data).unwrap(),
        took: 3,
        trace: None,
    }
}

/// The outcome of a run that a node reported with these outputs.
pub(crate) fn outcome(code: u8, data: Value) -> RunOutcome {
    let data = serde_json::from_value(data).unwrap();
    RunOutcome::from_saved_reply(
        ReplyStatus::try_from(code).unwrap(),
        None,
        "as it was".into(),
        data,
    )
}

/// A run from one second to another that had to wait half a second.
pub(crate) fn ran(class: &str, from: u64, to: u64) -> RunOutcome {
    let ok = matches!(class, "clean" | "changed");
    let changed = u64::from(class.contains("changed")) * 3;
    let failed = u64::from(class.contains("failed"));
    let started = 1_767_225_600_000 + from * 1000;
    let ended = 1_767_225_600_000 + to * 1000;
    outcome(
        u8::from(!ok),
        json!({"class": class, "summary": format!("{changed} of 61 resources changed"), "error": (!ok).then_some("one resource failed"),
               "changed": changed, "failed": failed, "total": 61, "started_at": started, "finished_at": ended, "duration": to - from,
               "waited_lock": 0.0, "waited_permit": 0.5, "attached": false}),
    )
}

/// A run with this outcome.
pub(crate) fn ended(outcome: RunOutcome) -> EndedRun {
    EndedRun { run: Uuid::nil(), outcome, earlier: false }
}

/// A rollout with these runs.
pub(crate) fn runs(outcomes: Vec<(&str, RunOutcome)>) -> PuppetRunsReport {
    let ended = outcomes.into_iter().map(|(node, outcome)| (node.parse().unwrap(), ended(outcome)));
    PuppetRunsReport {
        ended: ended.collect(),
        limit: Some(2),
        started: 1_767_225_600_017,
        took: Duration::from_millis(61_500),
        job: Some("20260101-000000-0045ab".to_owned()),
        ..PuppetRunsReport::default()
    }
}
