//! Asks this node's data sources what an expression needs to know: within time, each question once, and only what the
//! caller may ask.
//!
//! Whatever keeps an answer away, no such source, a denial, a failure, the deadline, makes it unknown and never an
//! error: what that means for the expression is the expression's business ([`Truth`]).

use std::sync::Arc;
use std::time::Duration;

use muster_api::progress::Sink;
use muster_api::{Context, Data, Node};
use muster_wire::filter::{Filter, Found, Known, Lookup, Progress, Truth};
use muster_wire::identity::{Identity, Name};
use muster_wire::policy::{PolicyPrincipal, Question};
use muster_wire::request::Request;
use muster_wire::token::Verified;
use muster_wire::trace::Traceparent;
use serde_json::Map;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use uuid::Uuid;

use crate::audit::{Outcome, Record, RecordClass};
use crate::core::Core;

/// The policy that says who may ask data sources: its actions are their names.
pub(crate) const DATA: &str = "data";
/// How long a request's filter may keep data sources busy, waiting for their turn included; and how long a policy may.
const REQUEST_TIME: Duration = Duration::from_secs(10);
/// Requests whose questions are asked at the same time.
const RUNNING: usize = 8;
/// Requests that wait for that, or are at it.
const ROOM: usize = 256;

/// How many requests may have data sources asked at once, and how many may wait.
#[derive(Debug)]
pub(crate) struct Gate {
    room: Arc<Semaphore>,
    running: Arc<Semaphore>,
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            room: Arc::new(Semaphore::new(ROOM)),
            running: Arc::new(Semaphore::new(RUNNING)),
        }
    }
}

impl Gate {
    /// Takes one request in, if there is room. Never waits.
    pub(crate) fn enter(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.room).try_acquire_owned().ok()
    }
}

/// The questions that one request asks of this node's data sources. What is answered is asked once, whoever needs it.
#[derive(Debug)]
pub struct Lookups {
    core: Arc<Core>,
    request: Uuid,
    caller: Identity,
    sender: Arc<Verified>,
    collective: Name,
    trace: Option<Traceparent>,
    until: Instant,
    stopping: CancellationToken,
    answers: Known,
    denied: Vec<String>,
}

impl Lookups {
    /// Begins for a request that is proven and fresh; nothing is asked yet.
    pub fn new(
        core: &Arc<Core>,
        request: &Request,
        sender: &Arc<Verified>,
        stopping: &CancellationToken,
    ) -> Self {
        Self {
            core: Arc::clone(core),
            request: request.id,
            caller: request.caller.clone(),
            sender: Arc::clone(sender),
            collective: request.collective.clone(),
            trace: request.traceparent,
            until: Instant::now() + REQUEST_TIME,
            stopping: stopping.clone(),
            answers: Known::default(),
            denied: Vec::new(),
        }
    }

    /// Holds a filter against this node on behalf of the caller, and asks what that needs and the caller may ask.
    pub async fn filter(&mut self, filter: &Filter) -> Truth {
        let mut known = Known::default();
        self.begin();
        loop {
            let core = Arc::clone(&self.core);
            let lookup = match core.view(|node| filter.evaluate(node, &known)) {
                Progress::Decided(truth) => return truth,
                Progress::Needs(lookup) => lookup,
            };
            let found = if self.allowed(&lookup.source).await {
                self.answer(lookup).await
            } else {
                Found::Unknown("denied".to_owned())
            };
            known.insert(lookup.clone(), found);
        }
    }

    /// Goes on with something until it is decided, and asks what it needs on behalf of the node, which may ask everything. The
    /// caller's denials do not blind the node, and what kept the caller waiting costs the node no time.
    pub async fn settle<'a, T>(&mut self, progress: impl Fn(&Known) -> Progress<'a, T>) -> T {
        let mut known = Known::default();
        self.begin();
        loop {
            let lookup = match progress(&known) {
                Progress::Decided(decided) => return decided,
                Progress::Needs(lookup) => lookup,
            };
            let found = self.answer(lookup).await;
            known.insert(lookup.clone(), found);
        }
    }

    /// From now on there is time again.
    fn begin(&mut self) {
        self.until = Instant::now() + REQUEST_TIME;
    }

    /// The answer to a question: the earlier one, if it was answered before. What kept an answer away is not remembered: it may have
    /// been the caller's doing.
    async fn answer(&mut self, lookup: &Lookup) -> Found {
        if let Some(found) = self.answers.get(lookup) {
            return found.clone();
        }
        match self.ask(lookup).await {
            Ok(found) => {
                self.answers.insert(lookup.clone(), found.clone());
                found
            }
            Err(why) => {
                tracing::debug!(request = %self.request, %lookup, why, "a data source did not answer");
                Found::Unknown(why)
            }
        }
    }

    async fn ask(&self, lookup: &Lookup) -> Result<Found, String> {
        let sources = &self.core.data_sources;
        let source = sources
            .iter()
            .find(|source| source.name() == lookup.source)
            .ok_or("this node has no such data source")?;
        let turn = Arc::clone(&self.core.lookups.running).acquire_owned();
        let turn = tokio::time::timeout_at(self.until, turn)
            .await
            .map_err(|_| "no turn in time")?
            .map_err(|error| error.to_string())?;
        let deadline = self.until.min(Instant::now() + source.ddl().timeout());
        let context = self.context(&lookup.source, deadline)?;
        run(source.clone(), context, lookup.query.clone(), turn).await
    }

    fn context(&self, source: &str, deadline: Instant) -> Result<Context, String> {
        let node: Arc<dyn Node> = Arc::clone(&self.core) as _;
        Ok(Context {
            request: self.request,
            caller: self.caller.clone(),
            agent: Name::parse(DATA).map_err(|error| error.to_string())?,
            action: Name::parse(source).map_err(|error| error.to_string())?,
            deadline,
            trace: self.trace,
            cancel: self.stopping.child_token(),
            system: Arc::clone(&self.core.system),
            node,
            progress: Sink::default(),
        })
    }

    /// Whether the caller may ask this source. A denial is recorded once.
    async fn allowed(&mut self, source: &str) -> bool {
        if self.denied.iter().any(|denied| denied == source) {
            return false;
        }
        let (Ok(agent), Ok(action)) = (Name::parse(DATA), Name::parse(source)) else {
            return false;
        };
        let policy = self.core.policy.get();
        let (core, caller) = (Arc::clone(&self.core), PolicyPrincipal::of(&self.sender));
        let decision = self
            .settle(|known| {
                core.view(|node| {
                    let question = Question {
                        caller: &caller,
                        agent: &agent,
                        action: &action,
                        node,
                        now: core.clock.now(),
                    };
                    policy.judge(&question, known)
                })
            })
            .await;
        // Nobody can approve a part of a filter.
        if decision.allowed && decision.approved_by.is_none() {
            return true;
        }
        self.core.counters.denied.count();
        let record = Record {
            class: RecordClass::Refusal,
            time: self.core.clock.now(),
            verdict: Outcome::Denied,
            request: self.request,
            caller: self.caller.clone(),
            caller_key: Some(self.sender.key.to_string()),
            caller_role: self.sender.role,
            collective: self.collective.clone(),
            traceparent: self.trace,
            agent,
            action,
            data: Map::new(),
            rule: Some(decision.rule),
            approval: None,
            status: None,
            reason: Some("denied"),
            took_ms: None,
        };
        if let Err(error) = self.core.audit.record(&record) {
            tracing::error!(%error, request = %self.request, "not recorded");
        }
        self.denied.push(source.to_owned());
        false
    }
}

/// Asks in a task of its own, so that a source that panics or hangs costs its answer only. The turn is given back when
/// the task is over, not when we stop waiting.
async fn run(
    source: Data,
    context: Context,
    query: Option<String>,
    turn: OwnedSemaphorePermit,
) -> Result<Found, String> {
    let (deadline, cancel) = (context.deadline, context.cancel.clone());
    let query = async move {
        let _turn = turn;
        source.query(&context, query.as_deref()).await
    };
    let mut task = tokio::spawn(query.in_current_span());
    tokio::select! {
        ended = &mut task => match ended {
            Ok(Ok(values)) => Ok(Found::Values(values)),
            Ok(Err(error)) => Err(error.message),
            Err(error) => {
                tracing::error!(%error, "a data source broke");
                Err("the data source broke off".to_owned())
            }
        },
        () = tokio::time::sleep_until(deadline) => {
            cancel.cancel();
            task.abort();
            Err("no answer in time".to_owned())
        }
        () = cancel.cancelled() => {
            task.abort();
            Err("the daemon stops".to_owned())
        }
    }
}
