//! The callers of the drill, what each received for its requests, and the comparison with what the nodes executed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use muster_calls::{CallTarget, RpcCall};
use muster_wire::identity::Identity;
use muster_wire::status::{ReplyReason, ReplyStatus};
use tokio::task::JoinSet;
use tokio::time::interval;
use uuid::Uuid;

use super::fleet::DrillFleet;
use crate::long::faults::call_records::{CallRecord, CallResult, record_call};
use crate::node_fixture::TestCaller;

/// Requests of all callers together.
pub(super) const REQUESTS_PER_SECOND: u32 = 20;
const CALLERS: u32 = 10;
/// How long a caller waits for replies.
const REPLY_TIMEOUT: Duration = Duration::from_secs(20);

/// Callers that send requests until they are stopped.
pub(super) struct DrillCallers {
    calling: JoinSet<Vec<CallRecord>>,
    is_done: Arc<AtomicBool>,
}

/// Totals of the compared records, in requests.
#[derive(Debug, Default)]
pub(super) struct DrillTotals {
    pub(super) done: usize,
    /// Reported as not executed or as unknown, by reason.
    refused: BTreeMap<&'static str, usize>,
    /// Reported as not answered by the node.
    missing: usize,
    /// Of these: executed.
    missing_executed: usize,
    /// The caller could not send the request.
    failed: usize,
    /// Executed requests of which no caller knows, because it was killed or could not send the request.
    unknown: usize,
}

impl DrillCallers {
    pub(super) async fn start(fleet: &DrillFleet) -> Self {
        let is_done = Arc::<AtomicBool>::default();
        let names: Arc<[Identity]> = fleet.nodes.iter().map(|node| node.name.clone()).collect();
        let mut calling = JoinSet::new();
        for number in 0..CALLERS {
            let signer = fleet.organisation.caller(&format!("caller{number}"));
            let caller = TestCaller::connect(&fleet.organisation, &fleet.cluster, signer).await;
            let first = usize::try_from(number).unwrap();
            calling.spawn(call_until_done(caller, first, Arc::clone(&names), Arc::clone(&is_done)));
        }
        Self { calling, is_done }
    }

    /// Stops the callers, and waits for the results of their last requests.
    pub(super) async fn stop(self) -> Vec<CallRecord> {
        self.is_done.store(true, Ordering::Release);
        self.calling.join_all().await.into_iter().flatten().collect()
    }
}

/// Calls one node after the other.
async fn call_until_done(
    caller: TestCaller,
    first: usize,
    names: Arc<[Identity]>,
    is_done: Arc<AtomicBool>,
) -> Vec<CallRecord> {
    let client = Arc::new(caller.client);
    let mut pause = interval(Duration::from_secs(1) * CALLERS / REQUESTS_PER_SECOND);
    let mut calls = JoinSet::new();
    // A step that has no factor in common with the number of nodes, so that all are called.
    for target in (first..).step_by(5) {
        pause.tick().await;
        if is_done.load(Ordering::Acquire) {
            break;
        }
        let name = names.get(target % names.len()).unwrap().clone();
        let client = Arc::clone(&client);
        calls.spawn(async move {
            let target = CallTarget::Nodes([name].into());
            let mut call = RpcCall::new("tally", "strike", target).unwrap();
            call.wait = REPLY_TIMEOUT;
            record_call(&client, call).await
        });
    }
    calls.join_all().await
}

/// Compares the records with the executions; fails the test if they disagree. `unknown_callers` are those that were killed before they could record anything.
pub(super) fn verify_records(
    records: &[CallRecord],
    effects: &HashMap<(Identity, Uuid), u32>,
    unknown_callers: usize,
) -> DrillTotals {
    let mut totals = DrillTotals::default();
    let mut known = BTreeSet::new();
    for record in records {
        known.extend(verify_record(record, effects, &mut totals));
    }
    let twice: Vec<_> = effects.iter().filter(|(_, times)| **times != 1).collect();
    assert!(twice.is_empty(), "executed more than once: {twice:?}");
    let executed = effects.keys().map(|(_, request)| *request);
    let unknown: BTreeSet<Uuid> = executed.filter(|request| !known.contains(request)).collect();
    // A caller whose call failed does not know the request's id.
    totals.unknown = unknown.len();
    assert!(totals.unknown <= totals.failed + unknown_callers, "{totals:?}: {unknown:?}");
    totals
}

/// Checks that a request has one result, and that it agrees with the execution. Returns its id.
fn verify_record(
    record: &CallRecord,
    effects: &HashMap<(Identity, Uuid), u32>,
    totals: &mut DrillTotals,
) -> Option<Uuid> {
    let CallResult::Finished { stats, answers } = &record.result else {
        totals.failed += 1;
        return None;
    };
    let node = record.targets.first().unwrap();
    let times = effects.get(&(node.clone(), stats.request)).copied().unwrap_or(0);
    let is_missing = stats.missing.contains(node);
    assert_eq!(
        (stats.ok + stats.failed, answers.len()),
        (answers.len(), usize::from(!is_missing)),
        "{stats:?}"
    );
    let is_consistent = match answers.get(node).map(|answer| &answer.reply) {
        Some(reply) if reply.statuscode == ReplyStatus::Ok => {
            totals.done += 1;
            times == 1
        }
        Some(reply) => {
            let reason = reply.reason.as_ref();
            *totals.refused.entry(reason.map_or("", ReplyReason::as_str)).or_default() += 1;
            // Only these replies say that the action may have run.
            let may_have_run = matches!(
                reason,
                Some(ReplyReason::Lost | ReplyReason::Timeout { .. } | ReplyReason::Cancelled)
            );
            times == 0 || (may_have_run && times == 1)
        }
        None => {
            totals.missing += 1;
            totals.missing_executed += usize::from(times > 0);
            times <= 1 && !(stats.unsent.contains(node) && times > 0)
        }
    };
    assert!(
        is_consistent,
        "{node} executed {} {times} times: {stats:?} {answers:?}",
        stats.request
    );
    Some(stats.request)
}
