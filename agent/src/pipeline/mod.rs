//! One request's way through the daemon, one file per stage. Read them in this order:
//!
//! ```text
//! decode -> verify -> fresh -> matches -> validate -> authorise -> dispatch -> reply
//!                                                        |             |
//!                                                        +--> audit <--+
//! ```
//!
//! [`accept`] is everything up to `authorise`: quick, without waiting, in the order of arrival. [`execute`] is the rest: it
//! takes as long as the action. A stage that stops a request says so with a `Stop`: silently, when nobody is entitled to an
//! answer, or with a refusal for an authentic caller.

mod audit;
mod authorise;
mod decode;
mod dispatch;
mod fresh;
mod matches;
mod reply;
mod validate;
mod verify;
mod watch;

use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_bus::Bytes;
use muster_host::Outcome;
use muster_wire::request::Request;
use muster_wire::status::{Reason, Status};
use muster_wire::token::Verified;
use muster_wire::trace::{StageName, Traceparent};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::core::Core;
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
    /// The inputs, with defaults.
    pub input: Map<String, Value>,
    /// The same with sensitive ones replaced, for the audit log.
    pub redacted: Map<String, Value>,
    /// The action changes nothing.
    pub read_only: bool,
    /// How long it may take.
    pub timeout: Duration,
    /// The policy's rule that allowed it.
    pub rule: String,
}

impl Accepted {
    /// The trace that the request is part of.
    pub fn traceparent(&self) -> Option<Traceparent> {
        self.asked.request.traceparent
    }
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

/// A refusal of an authentic caller's request.
#[derive(Debug)]
pub(crate) struct Refused {
    asked: Asked,
    status: Status,
    message: String,
    reason: Option<Reason>,
}

impl Stop {
    fn refused(asked: Asked, status: Status, message: String, reason: Option<Reason>) -> Self {
        Self::Refused(Box::new(Refused {
            asked,
            status,
            message,
            reason,
        }))
    }
}

/// Takes a request in: all stages that need no waiting. Either there is something to execute, or perhaps a refusal to send.
pub fn accept(core: &Core, incoming: &Incoming) -> Result<Accepted, Option<Outgoing>> {
    core.counters.total.count();
    match stages(core, incoming) {
        Ok(accepted) => Ok(accepted),
        Err(Stop::Silent) => Err(None),
        Err(Stop::Refused(mut refused)) => {
            audit::refused(core, &refused);
            refused.asked.watch.lap(StageName::Audit);
            Err(reply::refusal(core, &refused))
        }
    }
}

fn stages(core: &Core, incoming: &Incoming) -> Result<Accepted, Stop> {
    let came = Instant::now();
    let address = decode::address(core, incoming)?;
    let decoded = Instant::now();
    let mut asked = verify::open(core, incoming, &address)?;
    if asked.request.trace {
        asked.watch = Watch::new(came, decoded);
    }
    let freshness = watch::lap(StageName::Fresh, fresh::judge(core, asked));
    let meant = matches::meant_for_us(core, freshness);
    let asked = watch::lap(StageName::Match, meant)?;
    let valid = watch::lap(StageName::Validate, validate::inputs(core, asked))?;
    watch::lap(StageName::Authorise, authorise::decide(core, valid))
}

/// Runs an accepted request, and says what is to be sent, if anything.
pub async fn execute(
    core: &Arc<Core>,
    accepted: Accepted,
    stopping: &CancellationToken,
) -> Option<Outgoing> {
    let span = match accepted.traceparent() {
        Some(traceparent) => {
            tracing::info_span!("request", id = %accepted.asked.request.id, %traceparent)
        }
        None => tracing::Span::none(),
    };
    carry_out(core, accepted, stopping).instrument(span).await
}

async fn carry_out(
    core: &Arc<Core>,
    mut accepted: Accepted,
    stopping: &CancellationToken,
) -> Option<Outgoing> {
    let recorded = audit::begun(core, &accepted);
    accepted.asked.watch.lap(StageName::Audit);
    if let Err(refused) = recorded {
        accepted.asked.watch.refused();
        return reply::outcome(core, &accepted.asked, &refused);
    }
    let outcome: Outcome = dispatch::run(core, &mut accepted, stopping).await;
    audit::ended(core, &accepted, &outcome);
    accepted.asked.watch.lap(StageName::Audit);
    reply::outcome(core, &accepted.asked, &outcome)
}
