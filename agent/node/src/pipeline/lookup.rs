//! Queries this node's data sources for an expression: within a time limit, each query once, and only queries that the caller is allowed.
//!
//! A missing source, a denial, a failure or an expired deadline makes the value unknown, never an error: the expression defines the consequence
//! ([`TruthValue`]).

use std::sync::Arc;
use std::time::Duration;

use muster_api::progress::ProgressSink;
use muster_api::{CallContext, NodeHandle, ValidatedDataSource};
use muster_filter::{
    DataLookup, DataLookupResult, EvaluationProgress, KnownLookups, NodeFilter, TruthValue,
};
use muster_policy::{PolicyPrincipal, PolicyQuery};
use muster_wire::identity::{Identity, NameError, SubjectName};
use muster_wire::request::Request;
use muster_wire::token::VerifiedUser;
use muster_wire::trace::TraceContext;
use serde_json::Map;
use tokio::sync::{AcquireError, OwnedSemaphorePermit};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use uuid::Uuid;

use crate::core::DaemonCore;
use crate::core::audit::{AuditRecord, AuditVerdict, RecordClass};

/// The policy that governs queries of data sources: its actions are the sources' names.
pub(crate) const DATA_POLICY: &str = "data";
/// Time limit of the queries of a request's filter, including the wait for a permit; a policy has the same limit.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
enum LookupError {
    #[error("this node has no such data source")]
    NoSource,
    #[error("timed out in the queue for data sources")]
    QueueTimeout,
    #[error(transparent)]
    QueueClosed(#[from] AcquireError),
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("{0}")]
    Source(String),
    #[error("the data source failed unexpectedly")]
    Panicked,
    #[error("the data source did not reply in time")]
    SourceTimeout,
    #[error("the daemon is stopping")]
    Stopping,
}

/// The data source queries of one request. A result is cached and shared by filter and policy.
#[derive(Debug)]
pub struct RequestLookups {
    core: Arc<DaemonCore>,
    request: Uuid,
    caller: Identity,
    sender: Arc<VerifiedUser>,
    collective: SubjectName,
    trace: Option<TraceContext>,
    deadline: Instant,
    stopping: CancellationToken,
    results: KnownLookups,
    denied: Vec<String>,
}

impl RequestLookups {
    /// Starts with an authenticated and fresh request; sends no query.
    pub fn new(
        core: &Arc<DaemonCore>,
        request: &Request,
        sender: &Arc<VerifiedUser>,
        stopping: &CancellationToken,
    ) -> Self {
        Self {
            core: Arc::clone(core),
            request: request.id,
            caller: request.caller.clone(),
            sender: Arc::clone(sender),
            collective: request.collective.clone(),
            trace: request.traceparent,
            deadline: Instant::now() + LOOKUP_TIMEOUT,
            stopping: stopping.clone(),
            results: KnownLookups::default(),
            denied: Vec::new(),
        }
    }

    /// Evaluates a filter for this node on behalf of the caller, with the queries that it needs and the caller is allowed.
    pub async fn evaluate_filter(&mut self, filter: &NodeFilter) -> TruthValue {
        let mut known = KnownLookups::default();
        self.restart_deadline();
        loop {
            let core = Arc::clone(&self.core);
            let lookup = match core.with_node_view(|node| filter.evaluate(node, &known)) {
                EvaluationProgress::Decided(truth) => return truth,
                EvaluationProgress::Needs(lookup) => lookup,
            };
            let found = if self.check_allowed(&lookup.source).await {
                self.answer_lookup(lookup).await
            } else {
                DataLookupResult::Unknown("denied".to_owned())
            };
            known.insert(lookup.clone(), found);
        }
    }

    /// Evaluates until decided, with queries on behalf of the node, which may query every source. Denials and delays of the caller's queries do not
    /// affect the node's queries.
    pub async fn resolve_as_node<'a, T>(
        &mut self,
        progress: impl Fn(&KnownLookups) -> EvaluationProgress<'a, T>,
    ) -> T {
        let mut known = KnownLookups::default();
        self.restart_deadline();
        loop {
            let lookup = match progress(&known) {
                EvaluationProgress::Decided(decided) => return decided,
                EvaluationProgress::Needs(lookup) => lookup,
            };
            let found = self.answer_lookup(lookup).await;
            known.insert(lookup.clone(), found);
        }
    }

    fn restart_deadline(&mut self) {
        self.deadline = Instant::now() + LOOKUP_TIMEOUT;
    }

    /// The result of a query, cached if it succeeded before. Failures are not cached: the caller may have caused them.
    async fn answer_lookup(&mut self, lookup: &DataLookup) -> DataLookupResult {
        if let Some(found) = self.results.get(lookup) {
            return found.clone();
        }
        match self.query_source(lookup).await {
            Ok(found) => {
                self.results.insert(lookup.clone(), found.clone());
                found
            }
            Err(error) => {
                let reason = error.to_string();
                tracing::debug!(request = %self.request, %lookup, why = reason, "a data source lookup failed");
                DataLookupResult::Unknown(reason)
            }
        }
    }

    async fn query_source(&self, lookup: &DataLookup) -> Result<DataLookupResult, LookupError> {
        let sources = &self.core.offer.data_sources;
        let source = sources
            .iter()
            .find(|source| source.name() == lookup.source)
            .ok_or(LookupError::NoSource)?;
        let permit = tokio::time::timeout_at(self.deadline, self.core.lookups.enter_running())
            .await
            .map_err(|_| LookupError::QueueTimeout)??;
        let deadline = self.deadline.min(Instant::now() + source.ddl().timeout());
        let context = self.call_context(&lookup.source, deadline)?;
        run_query(source.clone(), context, lookup.query.clone(), permit).await
    }

    fn call_context(&self, source: &str, deadline: Instant) -> Result<CallContext, NameError> {
        let node: Arc<dyn NodeHandle> = Arc::clone(&self.core) as _;
        let cancel = self.stopping.child_token();
        Ok(CallContext {
            request: self.request,
            caller: self.caller.clone(),
            sender: None,
            agent: SubjectName::parse(DATA_POLICY)?,
            action: SubjectName::parse(source)?,
            deadline,
            trace: self.trace,
            withdrawn: cancel.child_token(),
            cancel,
            system: Arc::clone(&self.core.node.system),
            node,
            progress: ProgressSink::default(),
            reply_wanted: true,
        })
    }

    /// Whether the caller may query this source. A denial is recorded once.
    async fn check_allowed(&mut self, source: &str) -> bool {
        if self.denied.iter().any(|denied| denied == source) {
            return false;
        }
        let (Ok(agent), Ok(action)) = (SubjectName::parse(DATA_POLICY), SubjectName::parse(source))
        else {
            return false;
        };
        let policy = self.core.offer.policy.get();
        let (core, caller) = (Arc::clone(&self.core), PolicyPrincipal::from_verified(&self.sender));
        let decision = self
            .resolve_as_node(|known| {
                core.with_node_view(|node| {
                    let query = PolicyQuery {
                        caller: &caller,
                        agent: &agent,
                        action: &action,
                        node,
                        inputs: None,
                        now: core.now(),
                    };
                    policy.evaluate_query(&query, known)
                })
            })
            .await;
        // An approval covers a whole request, never a part of a filter.
        if decision.allowed && decision.approved_by.is_none() {
            return true;
        }
        self.core.counters.denied.increment();
        let record = AuditRecord {
            class: RecordClass::Refusal,
            time: self.core.now(),
            verdict: AuditVerdict::Denied,
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
            schedule: None,
            status: None,
            reason: Some("denied"),
            took_ms: None,
        };
        if let Err(error) = self.core.journals.audit.record_decision(&record) {
            tracing::error!(%error, request = %self.request, "cannot write an audit record");
        }
        self.denied.push(source.to_owned());
        false
    }
}

/// Runs the query in a separate task, so that a source that panics or hangs costs only its result. The permit is released when the task ends, not
/// when the caller stops waiting.
async fn run_query(
    source: ValidatedDataSource,
    context: CallContext,
    query: Option<String>,
    permit: OwnedSemaphorePermit,
) -> Result<DataLookupResult, LookupError> {
    let (deadline, cancel) = (context.deadline, context.cancel.clone());
    let query = async move {
        let _permit = permit;
        source.query_values(&context, query.as_deref()).await
    };
    let mut task = tokio::spawn(query.in_current_span());
    tokio::select! {
        ended = &mut task => match ended {
            Ok(Ok(values)) => Ok(DataLookupResult::Values(values)),
            Ok(Err(error)) => Err(LookupError::Source(error.message)),
            Err(error) => {
                tracing::error!(%error, "a data source failed");
                Err(LookupError::Panicked)
            }
        },
        () = tokio::time::sleep_until(deadline) => {
            cancel.cancel();
            task.abort();
            Err(LookupError::SourceTimeout)
        }
        () = cancel.cancelled() => {
            task.abort();
            Err(LookupError::Stopping)
        }
    }
}
