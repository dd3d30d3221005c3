//! Answers the requests that an earlier daemon had begun and not answered: with the result of work that outlived it, or that they are lost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_agents::package::PackageWorkers;
use muster_api::base::{format_duration, unix_millis_now};
use muster_bus::Bus;
use muster_host::CallOutcome;
use muster_node::core::DaemonCore;
use muster_node::core::begun::BegunRequest;
use muster_node::pipeline::daemon::send_begun_reply;
use muster_node::pipeline::{build_late_reply, record_lost};
use muster_wire::status::{ReplyReason, ReplyStatus};
use tokio::task::JoinSet;

/// Answers these requests of an earlier daemon. Returns when the last one is answered. Work in other processes has no time limit.
pub(crate) async fn answer_left_requests(
    core: Arc<DaemonCore>,
    bus: Bus,
    left: Vec<BegunRequest>,
    packages: Arc<PackageWorkers>,
) {
    let mut answers = JoinSet::new();
    for begun in left {
        answers.spawn(answer_request(Arc::clone(&core), bus.clone(), begun, Arc::clone(&packages)));
    }
    while answers.join_next().await.is_some() {}
}

async fn answer_request(
    core: Arc<DaemonCore>,
    bus: Bus,
    begun: BegunRequest,
    packages: Arc<PackageWorkers>,
) {
    let (id, leaving) = (begun.work_id(), core.leaving.clone());
    let outcome = match begun.stored_work_ids().into_iter().find_map(|id| packages.find_work(id)) {
        None => lost_outcome(&begun),
        // `None` if this daemon leaves too; the next one answers.
        Some(work) => match work.await_result(leaving).await {
            None => return,
            Some(Some(result)) => CallOutcome::from_result(result, Duration::ZERO),
            Some(None) => lost_outcome(&begun),
        },
    };
    let (status, reason) =
        (outcome.status.code(), outcome.reason.as_ref().map(ReplyReason::as_str));
    tracing::warn!(
        request = %begun.request, caller = %begun.caller, agent = %begun.agent, action = %begun.action, status, reason,
        "answering a request that an earlier daemon had begun"
    );
    record_lost(&core, &begun, &outcome);
    match build_late_reply(&core, &begun, &outcome, bus.max_payload()) {
        Some(reply) => {
            core.journals.sent_replies.keep(id, reply.to_sent(), begun.changes, Instant::now());
            send_begun_reply(&core, &bus, reply).await;
        }
        None => core.journals.begun.end(id),
    }
    for id in begun.stored_work_ids() {
        packages.forget_work(id).await;
    }
}

/// The outcome of a request whose daemon ended before its action.
fn lost_outcome(begun: &BegunRequest) -> CallOutcome {
    let age = Duration::from_millis(unix_millis_now().saturating_sub(begun.since));
    let effect = if begun.changes {
        "; it is unknown whether the node was changed: check it, then send the request again"
    } else {
        "; send it again"
    };
    let message = format!(
        "the daemon was killed, or the machine lost power, while the request ran (it began {} ago){effect}",
        format_duration(age)
    );
    CallOutcome::new_refusal(ReplyStatus::Other, message, Some(ReplyReason::Lost))
}
