//! Stage 4: whether the request targets this node. The filter is evaluated after the freshness check.
//!
//! A filter that needs data sources is evaluated outside the order of arrival: [`match_with_lookups`]. A node that is named and does not match the filter
//! beside the names refuses the request. A node that is not named and does not match, or cannot decide whether it does, sends no reply.

use muster_filter::{EvaluationProgress, KnownLookups, TruthValue};
use muster_wire::request::Request;
use muster_wire::status::{ReplyReason, ReplyStatus};
use tokio::sync::OwnedSemaphorePermit;

use super::admission::RequestRejection;
use super::passed_values::VerifiedRequest;
use super::stage_timer::{HasStageTimer, StageTimer};
use crate::core::DaemonCore;
use crate::pipeline::lookup::RequestLookups;

/// A request that may target this node.
pub(super) enum TargetMatch {
    Targeted(VerifiedRequest),
    /// Data sources must decide; contains the permit of the waiting request.
    Undecided(VerifiedRequest, OwnedSemaphorePermit),
}

impl HasStageTimer for TargetMatch {
    fn stage_timer(&mut self) -> &mut StageTimer {
        match self {
            Self::Targeted(verified) | Self::Undecided(verified, _) => verified.stage_timer(),
        }
    }
}

/// Passes on requests that target this node, including refusals of earlier stages; others get no reply. A request that was already refused causes
/// no queries.
pub(super) fn match_target(
    core: &DaemonCore,
    checked: Result<VerifiedRequest, RequestRejection>,
) -> Result<TargetMatch, RequestRejection> {
    let request = match &checked {
        Ok(verified) => &verified.request,
        Err(RequestRejection::Refused(refused)) => &refused.verified.request,
        Err(RequestRejection::Silent | RequestRejection::Repeated(_)) => {
            return checked.map(TargetMatch::Targeted);
        }
    };
    if !names_this_node(core, request) {
        return Err(not_targeted(core));
    }
    let is_named = request.target.nodes().is_some();
    match (evaluate_filter(core, request), checked) {
        (Some(true), checked) => {
            core.counters.passed.increment();
            checked.map(TargetMatch::Targeted)
        }
        (None, Ok(verified)) => {
            if let Some(permit) = core.lookups.try_enter() {
                return Ok(TargetMatch::Undecided(verified, permit));
            }
            tracing::warn!(
                request = %verified.request.id,
                "dropped a request: too many requests wait for data sources that their filters use"
            );
            Err(refuse_unmatched(core, verified))
        }
        (Some(false), Ok(verified)) => Err(refuse_unmatched(core, verified)),
        (_, Err(refused)) if is_named => Err(refused),
        (_, Err(_)) => Err(not_targeted(core)),
    }
}

/// Queries the data sources. Takes as long as the queries.
pub(super) async fn match_with_lookups(
    core: &DaemonCore,
    verified: VerifiedRequest,
    lookups: &mut RequestLookups,
) -> Result<VerifiedRequest, RequestRejection> {
    let truth = lookups.evaluate_filter(verified.request.node_filter()).await;
    if truth == TruthValue::True {
        core.counters.passed.increment();
        return Ok(verified);
    }
    Err(refuse_unmatched(core, verified))
}

/// Only a node that is named says that it does not match.
fn refuse_unmatched(core: &DaemonCore, verified: VerifiedRequest) -> RequestRejection {
    if verified.request.target.nodes().is_none() {
        return not_targeted(core);
    }
    core.counters.filtered.increment();
    let message = "this node does not match the filter of the request".to_owned();
    let reason = Some(ReplyReason::NotMatched);
    RequestRejection::new_refusal(verified, ReplyStatus::Other, message, reason)
}

fn not_targeted(core: &DaemonCore) -> RequestRejection {
    core.counters.filtered.increment();
    RequestRejection::Silent
}

/// Whether this node is listed, if nodes are.
fn names_this_node(core: &DaemonCore, request: &Request) -> bool {
    request.target.nodes().is_none_or(|nodes| nodes.contains(core.identity()))
}

/// Whether this node matches the filter of the request; `None` if data sources must decide.
fn evaluate_filter(core: &DaemonCore, request: &Request) -> Option<bool> {
    let filter = request.node_filter();
    if filter.is_empty() {
        return Some(true);
    }
    match core.with_node_view(|node| filter.evaluate(node, &KnownLookups::default())) {
        EvaluationProgress::Decided(truth) => Some(truth == TruthValue::True),
        EvaluationProgress::Needs(_) => None,
    }
}
