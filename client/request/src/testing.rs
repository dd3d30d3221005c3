//! Sample reports and runs, for tests here and in programs that render them.

#![expect(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "a sample that cannot be built fails its test"
)]

use std::time::Duration;

use muster_client::runs::RunOutcome;
use muster_wire::status::ReplyStatus;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::puppet_runs::{EndedRun, PuppetRunsReport};
use crate::report::{NodeReply, RequestReport, RequestStats};

/// A reply that took 3 ms.
pub fn reply(node: &str, code: u8, message: &str, data: Value) -> NodeReply {
    NodeReply {
        node: node.parse().unwrap(),
        status: code.try_into().unwrap(),
        message: message.to_owned(),
        reason: None,
        data: serde_json::from_value(data).unwrap(),
        took: 3,
        trace: None,
    }
}

/// A report of these replies, from all nodes that received the request.
pub fn report(agent: &str, action: &str, replies: Vec<NodeReply>) -> RequestReport {
    let ok = replies.iter().filter(|reply| reply.is_ok()).count();
    let stats = RequestStats {
        requests: vec!["01890a5d-ac96-774b-bcce-b302099a8057".to_owned()],
        discovered: replies.len(),
        ok,
        failed: replies.len() - ok,
        discovering: Duration::from_micros(309_678),
        publishing: Duration::from_micros(1_264),
        waiting: Duration::from_micros(36_850),
        started: 1_767_225_600_017,
        ..RequestStats::default()
    };
    RequestReport {
        noop: false,
        agent: agent.to_owned(),
        action: action.to_owned(),
        replies,
        stats,
        ..RequestReport::default()
    }
}

/// The outcome of a run that a node reported with these outputs.
pub fn outcome(code: u8, data: Value) -> RunOutcome {
    let data = serde_json::from_value(data).unwrap();
    RunOutcome::from_saved_reply(ReplyStatus::try_from(code).unwrap(), None, "as it was", data)
}

/// A run from one second to another that had to wait half a second.
pub fn ran(class: &str, from: u64, to: u64) -> RunOutcome {
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
pub fn ended(outcome: RunOutcome) -> EndedRun {
    EndedRun { run: Uuid::nil(), outcome, earlier: false }
}

/// A rollout with these runs.
pub fn runs(outcomes: Vec<(&str, RunOutcome)>) -> PuppetRunsReport {
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
