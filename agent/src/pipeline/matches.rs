//! Stage 4: whether the request targets this node. The filter is evaluated after the freshness check.
//!
//! A filter that needs data sources is evaluated outside the order of arrival: [`match_with_lookups`]. A node that cannot decide whether it is
//! targeted sends no reply.

use muster_filter::{EvaluationProgress, KnownLookups, TruthValue};
use muster_wire::request::{Request, RequestTarget};
use tokio::sync::OwnedSemaphorePermit;

use super::stage_timer::{HasStageTimer, StageTimer};
use super::{RequestRejection, VerifiedRequest};
use crate::core::DaemonCore;
use crate::lookup::RequestLookups;

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
        Err(RequestRejection::Silent) => return checked.map(TargetMatch::Targeted),
    };
    match (is_targeted(core, request), checked) {
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
            Err(not_targeted(core))
        }
        (Some(false), _) | (None, Err(_)) => Err(not_targeted(core)),
    }
}

/// Queries the data sources. Takes as long as the queries.
pub(super) async fn match_with_lookups(
    core: &DaemonCore,
    verified: VerifiedRequest,
    lookups: &mut RequestLookups,
) -> Result<VerifiedRequest, RequestRejection> {
    let truth = match &verified.request.target {
        RequestTarget::Nodes(_) => TruthValue::True,
        RequestTarget::Filter(filter) => lookups.evaluate_filter(filter).await,
    };
    if truth == TruthValue::True {
        core.counters.passed.increment();
        return Ok(verified);
    }
    Err(not_targeted(core))
}

fn not_targeted(core: &DaemonCore) -> RequestRejection {
    core.counters.filtered.increment();
    RequestRejection::Silent
}

/// Whether the request targets this node; `None` if data sources must decide.
fn is_targeted(core: &DaemonCore, request: &Request) -> Option<bool> {
    match &request.target {
        RequestTarget::Nodes(nodes) => Some(nodes.contains(core.identity())),
        RequestTarget::Filter(filter) if filter.is_empty() => Some(true),
        RequestTarget::Filter(filter) => {
            match core.with_node_view(|node| filter.evaluate(node, &KnownLookups::default())) {
                EvaluationProgress::Decided(truth) => Some(truth == TruthValue::True),
                EvaluationProgress::Needs(_) => None,
            }
        }
    }
}
