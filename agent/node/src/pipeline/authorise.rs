//! Stage 6: the node's own policy, applied in addition to the broker's permissions; and a second person's approval, if required.
//!
//! A policy that needs data sources is evaluated outside the order of arrival, as filters are: [`authorise_with_lookups`]. An action that reads a
//! data source is checked against the policy `data` too, as filters are.

use muster_filter::{EvaluationProgress, KnownLookups};
use muster_policy::{PolicyDecision, PolicyPrincipal, PolicyQuery, PolicySet};
use muster_wire::identity::SubjectName;
use muster_wire::status::{ReplyReason, ReplyStatus};
use tokio::sync::OwnedSemaphorePermit;

use super::admission::RequestRejection;
use super::approval;
use super::passed_values::AcceptedRequest;
use super::stage_timer::{HasStageTimer, StageTimer};
use crate::core::DaemonCore;
use crate::core::audit::ApprovalRecord;
use crate::pipeline::lookup::{DATA_POLICY, RequestLookups};

/// The action that reads a data source, and the input that names it.
const DATA_SOURCE_READ: (&str, &str, &str) = ("rpcutil", "get_data", "source");
/// The retry delay if too many requests wait for data sources, in milliseconds.
const BUSY_RETRY_MILLIS: u64 = 10_000;

/// The policy's result without queries.
pub(super) enum AuthorisationOutcome {
    Allowed(AcceptedRequest),
    /// Data sources must decide; contains the permit of the waiting request.
    Pending(AcceptedRequest, OwnedSemaphorePermit),
}

/// Why a request is allowed: the rule, and the approver.
struct PolicyGrant {
    rule: String,
    approver: Option<ApprovalRecord>,
}

/// The rule that denies, as text.
type DenialReason = String;

impl HasStageTimer for AuthorisationOutcome {
    fn stage_timer(&mut self) -> &mut StageTimer {
        match self {
            Self::Allowed(accepted) | Self::Pending(accepted, _) => accepted.stage_timer(),
        }
    }
}

/// Evaluates the policy as far as possible without data sources.
pub(super) fn authorise_immediately(
    core: &DaemonCore,
    accepted: AcceptedRequest,
) -> Result<AuthorisationOutcome, RequestRejection> {
    let policy = core.offer.policy.get();
    let verdict = match evaluate_policy(core, &policy, &accepted, &KnownLookups::default()) {
        EvaluationProgress::Decided(verdict) => verdict,
        EvaluationProgress::Needs(_) => {
            return match core.lookups.try_enter() {
                Some(permit) => Ok(AuthorisationOutcome::Pending(accepted, permit)),
                None => Err(busy_rejection(accepted)),
            };
        }
    };
    apply_verdict(core, accepted, verdict).map(AuthorisationOutcome::Allowed)
}

/// Evaluates the policy with the data sources that it needs. Takes as long as the queries.
pub(super) async fn authorise_with_lookups(
    core: &DaemonCore,
    accepted: AcceptedRequest,
    lookups: &mut RequestLookups,
) -> Result<AcceptedRequest, RequestRejection> {
    let policy = core.offer.policy.get();
    let verdict =
        lookups.resolve_as_node(|known| evaluate_policy(core, &policy, &accepted, known)).await;
    apply_verdict(core, accepted, verdict)
}

/// Stores the rule and the approver in the request, or refuses it.
fn apply_verdict(
    core: &DaemonCore,
    accepted: AcceptedRequest,
    verdict: Result<PolicyGrant, DenialReason>,
) -> Result<AcceptedRequest, RequestRejection> {
    match verdict {
        Ok(PolicyGrant { rule, approver }) => Ok(AcceptedRequest { rule, approver, ..accepted }),
        Err(rule) => Err(denied_rejection(core, accepted, rule)),
    }
}

/// Evaluates the policy with the known values; a verdict consumes the approval.
fn evaluate_policy<'p>(
    core: &DaemonCore,
    policy: &'p PolicySet,
    accepted: &AcceptedRequest,
    known: &KnownLookups,
) -> EvaluationProgress<'p, Result<PolicyGrant, DenialReason>> {
    let request = &accepted.verified.request;
    let caller = PolicyPrincipal::from_verified(&accepted.verified.caller);
    let evaluate = |agent: &SubjectName, action: &SubjectName, inputs| {
        core.with_node_view(|node| {
            let now = core.now();
            let query = PolicyQuery { caller: &caller, agent, action, node, inputs, now };
            policy.evaluate_query(&query, known)
        })
    };
    let decision = match evaluate(&request.agent, &request.action, Some(&accepted.input)) {
        EvaluationProgress::Needs(lookup) => return EvaluationProgress::Needs(lookup),
        EvaluationProgress::Decided(decision) => decision,
    };
    if !decision.allowed {
        return EvaluationProgress::Decided(Err(decision.rule));
    }
    match data_source_read(core, accepted) {
        None => {}
        Some(Err(denial)) => return EvaluationProgress::Decided(Err(denial)),
        Some(Ok((data, source))) => match evaluate(&data, &source, None) {
            EvaluationProgress::Needs(lookup) => return EvaluationProgress::Needs(lookup),
            EvaluationProgress::Decided(PolicyDecision {
                allowed: true,
                approved_by: None,
                ..
            }) => {}
            EvaluationProgress::Decided(refused) => {
                return EvaluationProgress::Decided(Err(refused.rule));
            }
        },
    }
    let approvers = decision.approved_by.as_deref();
    let rule = decision.rule;
    if approvers.is_none() && !(accepted.dangerous && core.offer.authority.approve_dangerous) {
        return EvaluationProgress::Decided(Ok(PolicyGrant { rule, approver: None }));
    }
    approval::check_approval(core, accepted, policy, approvers, known).map(
        |checked| match checked {
            Ok(approver) => Ok(PolicyGrant { rule, approver: Some(approver) }),
            Err(reason) => Err(format!("{rule}: {reason}")),
        },
    )
}

/// The query for the policy `data`, if the request reads one of the node's data sources.
fn data_source_read(
    core: &DaemonCore,
    accepted: &AcceptedRequest,
) -> Option<Result<(SubjectName, SubjectName), DenialReason>> {
    let request = &accepted.verified.request;
    let (agent, action, input) = DATA_SOURCE_READ;
    if (request.agent.as_str(), request.action.as_str()) != (agent, action) {
        return None;
    }
    let source_name = accepted.input.get(input)?.as_str()?;
    // The action itself reports an unknown source.
    core.offer.data_sources.iter().find(|source| source.name() == source_name)?;
    let query = SubjectName::parse(DATA_POLICY)
        .and_then(|data| Ok((data, SubjectName::parse(source_name)?)));
    Some(query.map_err(|error| format!("{DATA_POLICY}: `{source_name}`: {error}")))
}

fn denied_rejection(
    core: &DaemonCore,
    accepted: AcceptedRequest,
    rule: String,
) -> RequestRejection {
    core.counters.denied.increment();
    let request = &accepted.verified.request;
    let caller = PolicyPrincipal::from_verified(&accepted.verified.caller);
    let cause = if muster_policy::is_fault(&rule) { ", because a policy has an error" } else { "" };
    let message = format!(
        "{caller} is not allowed to call {} {} on this node{cause}: {rule}",
        request.agent, request.action
    );
    let reason = Some(ReplyReason::Denied { rule });
    RequestRejection::new_refusal(accepted.verified, ReplyStatus::Other, message, reason)
}

fn busy_rejection(accepted: AcceptedRequest) -> RequestRejection {
    let message =
        "too many requests on this node wait for data sources that policies use".to_owned();
    let reason = Some(ReplyReason::Busy { retry_after_ms: BUSY_RETRY_MILLIS });
    RequestRejection::new_refusal(accepted.verified, ReplyStatus::Other, message, reason)
}
