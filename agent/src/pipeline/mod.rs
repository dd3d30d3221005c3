//! One request's way through the daemon, one file per stage. Read them in this order:
//!
//! ```text
//! decode -> verify -> fresh -> matches -> unseal -> validate -> authorise -> dispatch -> reply
//!                                 |                                |             |
//!                                 +--------- data sources ---------+--> audit <--+
//! ```
//!
//! [`accept`] is everything up to `authorise`: quick, without waiting, in the order of arrival. Only what needs data sources
//! to tell whether it is meant for this node, or allowed here, waits at `matches` or `authorise`, for [`decide`]. [`execute`] is the
//! rest: it takes as long as the action; what an action answers from memory is answered [`at_once`]. A stage that stops a request says so with a `Stop`: silently, when nobody is entitled to an
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
mod unseal;
mod validate;
mod verify;
mod watch;

use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_api::RunningRequest;
use muster_api::progress::{Sink, channel};
use muster_bus::{Bus, Bytes};
use muster_host::{Outcome, Registry, Ticket};
use muster_wire::Millis;
use muster_wire::progress::Told;
use muster_wire::request::Request;
use muster_wire::status::{Reason, Status};
use muster_wire::token::Verified;
use muster_wire::trace::StageName;
use serde_json::{Map, Value};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::core::Core;
use crate::lookup::Lookups;
use crate::metrics::tally::Known;
use authorise::Judged;
use matches::Meant;
use progress::Listener;
use watch::Watch;

/// A message as it came.
#[derive(Debug)]
pub struct Incoming {
    /// Where it was published.
    pub subject: String,
    /// Where an answer is wanted.
    pub reply_to: Option<String>,
    /// The bytes.
    pub payload: Bytes,
}

/// A request of a proven caller.
#[derive(Debug)]
pub struct Asked {
    /// What is asked.
    pub request: Request,
    /// Who asks.
    pub caller: Arc<Verified>,
    /// The caller's own inbox, if it wants an answer.
    pub reply_to: Option<String>,
    /// Whether the memory of it outlives a crash, once it is forced to disk.
    pub remembered: bool,
    /// The stages so far, if the caller wants to know.
    watch: Watch,
}

/// A request that is meant for us, valid and allowed.
#[derive(Debug)]
pub struct Accepted {
    /// The request.
    pub asked: Asked,
    /// The agents that were on offer when it was taken in.
    pub registry: Arc<Registry>,
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
    pub ticket: Ticket,
    /// Who approved it, where that was demanded.
    pub(crate) approver: Option<approval::Approver>,
}

/// Where to send which bytes.
#[derive(Debug)]
pub struct Outgoing {
    /// The caller's inbox.
    pub subject: String,
    /// The sealed reply.
    pub payload: Bytes,
}

/// A request ends before its action.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Nobody is told; it is counted.
    Silent,
    /// The caller is told.
    Refused(Box<Refused>),
}

/// A message that nobody vouches for: it was counted, and nobody is told.
#[derive(Debug)]
struct Unproven;

/// A refusal of an authentic caller's request.
#[derive(Debug)]
pub(crate) struct Refused {
    asked: Asked,
    status: Status,
    message: String,
    reason: Option<Reason>,
    /// The stage that refused it, once that is over.
    stage: Option<StageName>,
}

impl Stop {
    fn refused(asked: Asked, status: Status, message: String, reason: Option<Reason>) -> Self {
        Self::Refused(Box::new(Refused {
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
pub enum Taken {
    /// It is to be executed.
    Accepted(Box<Accepted>),
    /// Whether it is for this node, or allowed, is still to be found out.
    Undecided(Box<Undecided>),
}

/// A request that waits for data sources.
#[derive(Debug)]
pub struct Undecided {
    open: Open,
    /// Its place among those that wait.
    place: OwnedSemaphorePermit,
}

/// What is open.
#[derive(Debug)]
enum Open {
    /// Whether it is for this node.
    Meant(Box<Asked>),
    /// Whether its caller may.
    Allowed(Box<Accepted>),
}

impl Open {
    fn asked(&self) -> &Asked {
        match self {
            Self::Meant(asked) => asked,
            Self::Allowed(accepted) => &accepted.asked,
        }
    }
}

/// Takes a request in: all stages that need no waiting. Either there is something to do, or perhaps a refusal to send.
pub fn accept(core: &Core, incoming: &Incoming) -> Result<Taken, Option<Outgoing>> {
    core.counters.total.count();
    let came = Instant::now();
    let asked = arrival(core, incoming, came).map_err(|_: Unproven| None)?;
    let _said_of = span(&asked.request).entered();
    judge(core, asked).map_err(|stop| told(core, stop))
}

/// Finds out what is open of a request, and takes it through the stages that were left.
pub async fn decide(
    core: &Arc<Core>,
    undecided: Undecided,
    stopping: &CancellationToken,
) -> Result<Accepted, Option<Outgoing>> {
    let Undecided { open, place } = undecided;
    let span = span(&open.asked().request);
    let deciding = async {
        let decided = settle(core, open, stopping).await;
        drop(place);
        decided.map_err(|stop| told(core, stop))
    };
    deciding.instrument(span).await
}

/// What every line of the log says that is written while a request is at work, whatever the log's level: so it is an error's span.
fn span(request: &Request) -> tracing::Span {
    let trace = request.traceparent.map(|traceparent| traceparent.trace());
    tracing::error_span!(
        "request",
        request = %request.id,
        caller = %request.caller,
        agent = %request.agent,
        action = %request.action,
        trace,
    )
}

async fn settle(
    core: &Arc<Core>,
    open: Open,
    stopping: &CancellationToken,
) -> Result<Accepted, Stop> {
    let asked = open.asked();
    let mut lookups = Lookups::new(core, &asked.request, &asked.caller, stopping);
    let accepted = match open {
        Open::Meant(asked) => {
            let settled = matches::settle(core, *asked, &mut lookups).await;
            let asked = watch::lap(StageName::Match, settled)?;
            valid(core, asked)?
        }
        Open::Allowed(accepted) => *accepted,
    };
    let authorised = authorise::settle(core, accepted, &mut lookups).await;
    watch::lap(StageName::Authorise, authorised)
}

/// Whose request it is. Nobody is told of a message that is nobody's.
fn arrival(core: &Core, incoming: &Incoming, came: Instant) -> Result<Asked, Unproven> {
    let address = decode::address(core, incoming)?;
    let decoded = Instant::now();
    let mut asked = verify::open(core, incoming, &address)?;
    if asked.request.trace {
        asked.watch = Watch::new(came, decoded);
    }
    Ok(asked)
}

/// What is to become of a proven caller's request.
fn judge(core: &Core, asked: Asked) -> Result<Taken, Stop> {
    let freshness = watch::lap(StageName::Fresh, fresh::judge(core, asked));
    let meant = matches::meant_for_us(core, freshness);
    let (open, place) = match watch::lap(StageName::Match, meant)? {
        Meant::Perhaps(asked, place) => (Open::Meant(Box::new(asked)), place),
        Meant::Us(asked) => {
            let valid = valid(core, asked)?;
            match watch::lap(StageName::Authorise, authorise::at_once(core, valid))? {
                Judged::Allowed(accepted) => return Ok(Taken::Accepted(Box::new(accepted))),
                Judged::Open(accepted, place) => (Open::Allowed(Box::new(accepted)), place),
            }
        }
    };
    Ok(Taken::Undecided(Box::new(Undecided { open, place })))
}

/// Opens the inputs, and holds them against their schema.
fn valid(core: &Core, asked: Asked) -> Result<Accepted, Stop> {
    let opened = unseal::inputs(core, asked);
    let valid = opened.and_then(|asked| validate::inputs(core, asked));
    watch::lap(StageName::Validate, valid)
}

/// Records a refusal, and makes the answer that tells it.
fn told(core: &Core, stop: Stop) -> Option<Outgoing> {
    match stop {
        Stop::Silent => None,
        Stop::Refused(mut refused) => {
            count_refusal(core, &refused);
            audit::refused(core, &refused);
            refused.asked.watch.lap(StageName::Audit);
            reply::refusal(core, &refused)
        }
    }
}

/// Answers an accepted request here and now, if its action answers from memory, changes nothing and need not wait for its turn.
/// Otherwise the request is given back, for [`execute`].
pub fn at_once(
    core: &Arc<Core>,
    mut accepted: Box<Accepted>,
    bus: &Bus,
) -> Result<Option<Outgoing>, Box<Accepted>> {
    let _said_of = span(&accepted.asked.request).entered();
    if accepted.asked.request.stream {
        return Err(accepted);
    }
    match dispatch::at_once(core, &mut accepted) {
        Some(outcome) => Ok(ended(core, &mut accepted, (&outcome, true), None, bus)),
        None => Err(accepted),
    }
}

/// Runs an accepted request, tells of its progress over the bus if the caller wants that, and says what is to be sent in the
/// end, if anything.
pub async fn execute(
    core: &Arc<Core>,
    accepted: Accepted,
    stopping: &CancellationToken,
    bus: &Bus,
) -> Option<Outgoing> {
    let span = span(&accepted.asked.request);
    carry_out(core, accepted, stopping, bus)
        .instrument(span)
        .await
}

async fn carry_out(
    core: &Arc<Core>,
    mut accepted: Accepted,
    stopping: &CancellationToken,
    bus: &Bus,
) -> Option<Outgoing> {
    let recorded = audit::begun(core, &accepted);
    accepted.asked.watch.lap(StageName::Audit);
    if let Err(refused) = recorded {
        accepted.asked.watch.refused();
        core.tallies.refused(StageName::Audit, "");
        count(core, &accepted, &refused);
        return reply::outcome(core, &accepted.asked, &refused, (None, bus.max_payload()));
    }
    let ((outcome, began), told) = if let Some(listener) = accepted.asked.listener() {
        let (sink, source) = channel();
        let work = async {
            let outcome = dispatch::run(core, &mut accepted, stopping, sink).await;
            source.close();
            outcome
        };
        let telling = progress::tell(core, &listener, bus, &source);
        let (outcome, told) = tokio::join!(work, telling);
        (outcome, Some(told))
    } else {
        let outcome = dispatch::run(core, &mut accepted, stopping, Sink::default()).await;
        (outcome, None)
    };
    ended(core, &mut accepted, (&outcome, began), told, bus)
}

/// The action has ended: that is counted, recorded and answered.
fn ended(
    core: &Core,
    accepted: &mut Accepted,
    (outcome, began): (&Outcome, bool),
    told: Option<Told>,
    bus: &Bus,
) -> Option<Outgoing> {
    count(core, accepted, outcome);
    audit::ended(core, accepted, outcome, began);
    accepted.asked.watch.lap(StageName::Audit);
    reply::outcome(core, &accepted.asked, outcome, (told, bus.max_payload()))
}

/// Counts how an accepted request ended, and says so to a log that listens closely.
fn count(core: &Core, accepted: &Accepted, outcome: &Outcome) {
    let request = &accepted.asked.request;
    let reason = outcome.reason.as_ref().map_or("", Reason::word);
    let what = Known::of(&accepted.registry, request);
    core.tallies.ended(what, outcome.status, reason);
    if !outcome.took.is_zero() {
        core.tallies.took(what, outcome.took);
    }
    let took_ms = outcome.took.as_millis();
    tracing::debug!(status = outcome.status.code(), reason, took_ms, "answered");
}

/// The same for one that was refused.
fn count_refusal(core: &Core, refused: &Refused) {
    let (request, registry) = (&refused.asked.request, core.registry.get());
    let reason = refused.reason.as_ref().map_or("", Reason::word);
    core.tallies
        .ended(Known::of(&registry, request), refused.status, reason);
    let stage = refused.stage.unwrap_or(StageName::Other);
    core.tallies.refused(stage, reason);
    tracing::debug!(status = refused.status.code(), reason, %stage, "refused");
}

impl Asked {
    /// Where the caller wants to hear of progress.
    fn listener(&self) -> Option<Listener> {
        let to = self.reply_to.as_ref().filter(|_| self.request.stream)?;
        Some(Listener {
            to: to.clone(),
            request: self.request.id,
            agent: self.request.agent.clone(),
            action: self.request.action.clone(),
        })
    }

    /// The request as others may see it who ask what is at work.
    fn running(&self, now: Millis) -> RunningRequest {
        RunningRequest {
            id: self.request.id,
            caller: self.request.caller.clone(),
            agent: self.request.agent.to_string(),
            action: self.request.action.to_string(),
            since: now,
        }
    }
}
