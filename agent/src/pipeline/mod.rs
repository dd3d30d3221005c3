//! One request's way through the daemon, one file per stage. Read them in this order:
//!
//! ```text
//! decode -> verify -> fresh -> matches -> unseal -> validate -> authorise -> dispatch -> reply
//!                                 |                                |             |
//!                                 +--------- data sources ---------+--> audit <--+
//! ```
//!
//! [`accept_message`] is everything up to `authorise`: quick, without waiting, in the order of arrival. Only what needs data sources
//! to tell whether it is meant for this node, or allowed here, waits at `matches` or `authorise`, for [`decide_admission`]. [`execute_request`] is the
//! rest: it takes as long as the action; what an action answers from memory is answered [`execute_immediately`]. A stage that stops a request says so with a `Stop`: silently, when nobody is entitled to an
//! answer, or with a refusal for an authentic caller.

mod approval;
mod audit;
mod authorise;
mod decode;
mod dispatch;
mod fresh;
mod matches;
mod progress;
mod reply;
mod stage_timer;
mod unseal;
mod validate;
mod verify;

use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_api::RunningRequest;
use muster_api::progress::{ProgressSink, progress_channel};
use muster_bus::{Bus, Bytes};
use muster_host::{AgentRegistry, CallOutcome, RunningGuard};
use muster_wire::Millis;
use muster_wire::progress::ProgressCounts;
use muster_wire::request::Request;
use muster_wire::status::{ReplyReason, ReplyStatus};
use muster_wire::token::VerifiedUser;
use muster_wire::trace::StageName;
use serde_json::{Map, Value};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::core::DaemonCore;
use crate::lookup::RequestLookups;
use crate::metrics::request_metrics::KnownAction;
use authorise::AuthorisationOutcome;
use matches::TargetMatch;
use progress::ProgressListener;
use stage_timer::StageTimer;

/// A message as it came.
#[derive(Debug)]
pub struct IncomingMessage {
    /// Where it was published.
    pub subject: String,
    /// Where an answer is wanted.
    pub reply_to: Option<String>,
    /// The bytes.
    pub payload: Bytes,
}

/// A request of a proven caller.
#[derive(Debug)]
pub struct VerifiedRequest {
    /// What is asked.
    pub request: Request,
    /// Who asks.
    pub caller: Arc<VerifiedUser>,
    /// The caller's own inbox, if it wants an answer.
    pub reply_to: Option<String>,
    /// Whether the memory of it outlives a crash, once it is forced to disk.
    pub remembered: bool,
    /// The stages so far, if the caller wants to know.
    watch: StageTimer,
}

/// A request that is meant for us, valid and allowed.
#[derive(Debug)]
pub struct AcceptedRequest {
    /// The request.
    pub asked: VerifiedRequest,
    /// The agents that were on offer when it was taken in.
    pub registry: Arc<AgentRegistry>,
    /// The inputs, with defaults.
    pub input: Map<String, Value>,
    /// The same with sensitive ones replaced, for the audit log.
    pub redacted: Map<String, Value>,
    /// The action changes nothing.
    pub read_only: bool,
    /// How long it may take.
    pub timeout: Duration,
    /// The action is one of those for which a node may demand a second person.
    pub dangerous: bool,
    /// The policy's rule that allowed it.
    pub rule: String,
    /// Its place among the requests at work, from which it can be taken back.
    pub ticket: RunningGuard,
    /// Who approved it, where that was demanded.
    pub(crate) approver: Option<approval::RequestApprover>,
}

/// Where to send which bytes.
#[derive(Debug)]
pub struct OutgoingReply {
    /// The caller's inbox.
    pub subject: String,
    /// The sealed reply.
    pub payload: Bytes,
}

/// A request ends before its action.
#[derive(Debug)]
pub(crate) enum RequestRejection {
    /// Nobody is told; it is counted.
    Silent,
    /// The caller is told.
    Refused(Box<RefusedRequest>),
}

/// A message that nobody vouches for: it was counted, and nobody is told.
#[derive(Debug)]
struct UnverifiedMessage;

/// A refusal of an authentic caller's request.
#[derive(Debug)]
pub(crate) struct RefusedRequest {
    asked: VerifiedRequest,
    status: ReplyStatus,
    message: String,
    reason: Option<ReplyReason>,
    /// The stage that refused it, once that is over.
    stage: Option<StageName>,
}

impl RequestRejection {
    fn new_refusal(
        asked: VerifiedRequest,
        status: ReplyStatus,
        message: String,
        reason: Option<ReplyReason>,
    ) -> Self {
        Self::Refused(Box::new(RefusedRequest {
            asked,
            status,
            message,
            reason,
            stage: None,
        }))
    }
}

/// What became of a message that was not refused.
#[derive(Debug)]
pub enum RequestAdmission {
    /// It is to be executed.
    Accepted(Box<AcceptedRequest>),
    /// Whether it is for this node, or allowed, is still to be found out.
    Undecided(Box<PendingAdmission>),
}

/// A request that waits for data sources.
#[derive(Debug)]
pub struct PendingAdmission {
    open: PendingCheck,
    /// Its place among those that wait.
    place: OwnedSemaphorePermit,
}

/// What is open.
#[derive(Debug)]
enum PendingCheck {
    /// Whether it is for this node.
    Meant(Box<VerifiedRequest>),
    /// Whether its caller may.
    Allowed(Box<AcceptedRequest>),
}

impl PendingCheck {
    fn verified_request(&self) -> &VerifiedRequest {
        match self {
            Self::Meant(asked) => asked,
            Self::Allowed(accepted) => &accepted.asked,
        }
    }
}

/// Takes a request in: all stages that need no waiting. Either there is something to do, or perhaps a refusal to send.
pub fn accept_message(
    core: &DaemonCore,
    incoming: &IncomingMessage,
) -> Result<RequestAdmission, Option<OutgoingReply>> {
    core.counters.total.increment();
    let came = Instant::now();
    let asked = decode_and_verify(core, incoming, came).map_err(|_: UnverifiedMessage| None)?;
    let _said_of = request_span(&asked.request).entered();
    admit_request(core, asked).map_err(|stop| reject_request(core, stop))
}

/// Finds out what is open of a request, and takes it through the stages that were left.
pub async fn decide_admission(
    core: &Arc<DaemonCore>,
    undecided: PendingAdmission,
    stopping: &CancellationToken,
) -> Result<AcceptedRequest, Option<OutgoingReply>> {
    let PendingAdmission { open, place } = undecided;
    let span = request_span(&open.verified_request().request);
    let deciding = async {
        let decided = resolve_pending(core, open, stopping).await;
        drop(place);
        decided.map_err(|stop| reject_request(core, stop))
    };
    deciding.instrument(span).await
}

/// What every line of the log says that is written while a request is at work, whatever the log's level: so it is an error's span.
fn request_span(request: &Request) -> tracing::Span {
    let trace = request
        .traceparent
        .map(|traceparent| traceparent.trace_id());
    tracing::error_span!(
        "request",
        request = %request.id,
        caller = %request.caller,
        agent = %request.agent,
        action = %request.action,
        trace,
    )
}

async fn resolve_pending(
    core: &Arc<DaemonCore>,
    open: PendingCheck,
    stopping: &CancellationToken,
) -> Result<AcceptedRequest, RequestRejection> {
    let asked = open.verified_request();
    let mut lookups = RequestLookups::new(core, &asked.request, &asked.caller, stopping);
    let accepted = match open {
        PendingCheck::Meant(asked) => {
            let settled = matches::match_with_lookups(core, *asked, &mut lookups).await;
            let asked = stage_timer::end_stage(StageName::Match, settled)?;
            validate_request(core, asked)?
        }
        PendingCheck::Allowed(accepted) => *accepted,
    };
    let authorised = authorise::authorise_with_lookups(core, accepted, &mut lookups).await;
    stage_timer::end_stage(StageName::Authorise, authorised)
}

/// Whose request it is. Nobody is told of a message that is nobody's.
fn decode_and_verify(
    core: &DaemonCore,
    incoming: &IncomingMessage,
    came: Instant,
) -> Result<VerifiedRequest, UnverifiedMessage> {
    let address = decode::parse_address(core, incoming)?;
    let decoded = Instant::now();
    let mut asked = verify::verify_message(core, incoming, &address)?;
    if asked.request.trace {
        asked.watch = StageTimer::new(came, decoded);
    }
    Ok(asked)
}

/// What is to become of a proven caller's request.
fn admit_request(
    core: &DaemonCore,
    asked: VerifiedRequest,
) -> Result<RequestAdmission, RequestRejection> {
    let freshness = stage_timer::end_stage(StageName::Fresh, fresh::check_freshness(core, asked));
    let meant = matches::match_target(core, freshness);
    let (open, place) = match stage_timer::end_stage(StageName::Match, meant)? {
        TargetMatch::Perhaps(asked, place) => (PendingCheck::Meant(Box::new(asked)), place),
        TargetMatch::Us(asked) => {
            let valid = validate_request(core, asked)?;
            match stage_timer::end_stage(
                StageName::Authorise,
                authorise::authorise_immediately(core, valid),
            )? {
                AuthorisationOutcome::Allowed(accepted) => {
                    return Ok(RequestAdmission::Accepted(Box::new(accepted)));
                }
                AuthorisationOutcome::Open(accepted, place) => {
                    (PendingCheck::Allowed(Box::new(accepted)), place)
                }
            }
        }
    };
    Ok(RequestAdmission::Undecided(Box::new(PendingAdmission {
        open,
        place,
    })))
}

/// Opens the inputs, and holds them against their schema.
fn validate_request(
    core: &DaemonCore,
    asked: VerifiedRequest,
) -> Result<AcceptedRequest, RequestRejection> {
    let opened = unseal::unseal_inputs(core, asked);
    let valid = opened.and_then(|asked| validate::validate_inputs(core, asked));
    stage_timer::end_stage(StageName::Validate, valid)
}

/// Records a refusal, and makes the answer that tells it.
fn reject_request(core: &DaemonCore, stop: RequestRejection) -> Option<OutgoingReply> {
    match stop {
        RequestRejection::Silent => None,
        RequestRejection::Refused(mut refused) => {
            count_refusal(core, &refused);
            audit::record_refusal(core, &refused);
            refused.asked.watch.end_stage(StageName::Audit);
            reply::build_refusal(core, &refused)
        }
    }
}

/// Answers an accepted request here and now, if its action answers from memory, changes nothing and need not wait for its turn.
/// Otherwise the request is given back, for [`execute_request`].
pub fn execute_immediately(
    core: &Arc<DaemonCore>,
    mut accepted: Box<AcceptedRequest>,
    bus: &Bus,
) -> Result<Option<OutgoingReply>, Box<AcceptedRequest>> {
    let _said_of = request_span(&accepted.asked.request).entered();
    if accepted.asked.request.stream {
        return Err(accepted);
    }
    match dispatch::run_immediately(core, &mut accepted) {
        Some(outcome) => Ok(finish_request(
            core,
            &mut accepted,
            (&outcome, true),
            None,
            bus,
        )),
        None => Err(accepted),
    }
}

/// Runs an accepted request, tells of its progress over the bus if the caller wants that, and says what is to be sent in the
/// end, if anything.
pub async fn execute_request(
    core: &Arc<DaemonCore>,
    accepted: AcceptedRequest,
    stopping: &CancellationToken,
    bus: &Bus,
) -> Option<OutgoingReply> {
    let span = request_span(&accepted.asked.request);
    run_request(core, accepted, stopping, bus)
        .instrument(span)
        .await
}

async fn run_request(
    core: &Arc<DaemonCore>,
    mut accepted: AcceptedRequest,
    stopping: &CancellationToken,
    bus: &Bus,
) -> Option<OutgoingReply> {
    let recorded = audit::record_start(core, &accepted);
    accepted.asked.watch.end_stage(StageName::Audit);
    if let Err(refused) = recorded {
        accepted.asked.watch.mark_refused();
        core.tallies.record_refusal(StageName::Audit, "");
        count_outcome(core, &accepted, &refused);
        return reply::build_reply(core, &accepted.asked, &refused, (None, bus.max_payload()));
    }
    let ((outcome, began), told) = if let Some(listener) = accepted.asked.progress_listener() {
        let (sink, source) = progress_channel();
        let work = async {
            let outcome = dispatch::run_action(core, &mut accepted, stopping, sink).await;
            source.close();
            outcome
        };
        let telling = progress::send_progress(core, &listener, bus, &source);
        let (outcome, told) = tokio::join!(work, telling);
        (outcome, Some(told))
    } else {
        let outcome =
            dispatch::run_action(core, &mut accepted, stopping, ProgressSink::default()).await;
        (outcome, None)
    };
    finish_request(core, &mut accepted, (&outcome, began), told, bus)
}

/// The action has ended: that is counted, recorded and answered.
fn finish_request(
    core: &DaemonCore,
    accepted: &mut AcceptedRequest,
    (outcome, began): (&CallOutcome, bool),
    told: Option<ProgressCounts>,
    bus: &Bus,
) -> Option<OutgoingReply> {
    count_outcome(core, accepted, outcome);
    audit::record_end(core, accepted, outcome, began);
    accepted.asked.watch.end_stage(StageName::Audit);
    reply::build_reply(core, &accepted.asked, outcome, (told, bus.max_payload()))
}

/// Counts how an accepted request ended, and says so to a log that listens closely.
fn count_outcome(core: &DaemonCore, accepted: &AcceptedRequest, outcome: &CallOutcome) {
    let request = &accepted.asked.request;
    let reason = outcome.reason.as_ref().map_or("", ReplyReason::as_str);
    let what = KnownAction::from_request(&accepted.registry, request);
    core.tallies.record_outcome(what, outcome.status, reason);
    if !outcome.took.is_zero() {
        core.tallies.record_duration(what, outcome.took);
    }
    let took_ms = outcome.took.as_millis();
    tracing::debug!(status = outcome.status.code(), reason, took_ms, "answered");
}

/// The same for one that was refused.
fn count_refusal(core: &DaemonCore, refused: &RefusedRequest) {
    let (request, registry) = (&refused.asked.request, core.registry.get());
    let reason = refused.reason.as_ref().map_or("", ReplyReason::as_str);
    core.tallies.record_outcome(
        KnownAction::from_request(&registry, request),
        refused.status,
        reason,
    );
    let stage = refused.stage.unwrap_or(StageName::Other);
    core.tallies.record_refusal(stage, reason);
    tracing::debug!(status = refused.status.code(), reason, %stage, "refused");
}

impl VerifiedRequest {
    /// Where the caller wants to hear of progress.
    fn progress_listener(&self) -> Option<ProgressListener> {
        let to = self.reply_to.as_ref().filter(|_| self.request.stream)?;
        Some(ProgressListener {
            to: to.clone(),
            request: self.request.id,
            agent: self.request.agent.clone(),
            action: self.request.action.clone(),
        })
    }

    /// The request as others may see it who ask what is at work.
    fn to_running_request(&self, now: Millis) -> RunningRequest {
        RunningRequest {
            id: self.request.id,
            caller: self.request.caller.clone(),
            agent: self.request.agent.to_string(),
            action: self.request.action.to_string(),
            since: now,
        }
    }
}
