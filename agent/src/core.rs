//! The state of one daemon, shared by all requests. The pipeline's stages make the decisions.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use muster_api::system::System;
use muster_api::{
    AgentInfo, AgentProblem, CallContext, CallerVerdict, CancelScope, CounterSnapshot,
    HealthFinding, LogThrottle, NodeHandle, RequestOwner, RunningRequest, ValidatedDataSource,
    WorkEnd,
};
use muster_ddl::AgentDdl;
use muster_filter::NodeFilter;
use muster_filter::state::{MapField, NodeFacts, NodeView};
use muster_host::{AgentRegistry, RunningRequests};
use muster_policy::{CallerDecision, PolicySet};
use muster_wire::Millis;
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::sign::Signer;
use muster_wire::token::lifetime::TokenLife;
use muster_wire::token::{AccountTrust, TokenCache, TokenError};
use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::audit::{AuditLog, AuditRecord};
use crate::begun::BegunRequests;
use crate::classes::ClassStore;
use crate::clock::WallClock;
use crate::clone_watch::CloneWatch;
use crate::config::{Config, PolicyOptions};
use crate::counters::MessageCounters;
use crate::enrolment;
use crate::facts::{FactSources, FactStore};
use crate::health::{self, HealthState};
use crate::lookup::LookupLimiter;
use crate::metrics::directory_metrics::RunningDirectory;
use crate::metrics::request_metrics::RequestMetrics;
use crate::node_state::NodeStateStore;
use crate::pending_config::StartedConfig;
use crate::renewal::{self, NodeTokenRenewalError};
use crate::seen::SeenRequests;
use crate::sent_replies::SentReplies;
use crate::shared::SharedValue;
use crate::trust_sync::TrustFreshness;

/// Minimum interval between log lines about unauthenticated messages.
const UNVERIFIED_LOG_INTERVAL: Duration = Duration::from_secs(10);

pub struct CoreParts {
    pub signer: Signer,
    pub trust: SharedValue<AccountTrust>,
    /// The collectives; the first is the main one.
    pub collectives: Vec<SubjectName>,
    pub facts: FactStore,
    pub classes: ClassStore,
    pub state: NodeStateStore,
    /// The node's policies, applied in addition to the broker's permissions.
    pub policy: SharedValue<PolicySet>,
    pub registry: SharedValue<AgentRegistry>,
    pub data_sources: Arc<[ValidatedDataSource]>,
    pub system: Arc<dyn System>,
    pub seen: SeenRequests,
    pub begun: BegunRequests,
    pub sent_replies: SentReplies,
    pub audit: Arc<AuditLog>,
    /// The tolerated clock difference, in milliseconds.
    pub skew: Millis,
    pub authority: PolicyOptions,
    /// Whether to accept sensitive inputs that the broker can read.
    pub plain_secrets: bool,
    pub clock: WallClock,
    /// The configuration, for queries.
    pub config: Option<Config>,
    pub config_file: PathBuf,
}

/// Dereferences to its parts: `core.signer`.
pub struct DaemonCore {
    parts: CoreParts,
    /// Since when it is unknown whether the account token is the newest.
    pub freshness: TrustFreshness,
    pub(crate) tokens: TokenCache,
    pub(crate) collective_names: Vec<String>,
    /// All agents, including those withheld during provisioning.
    pub(crate) all_agents: SharedValue<AgentRegistry>,
    provisioning_only: AtomicBool,
    pub(crate) agent_problems: SharedValue<Vec<AgentProblem>>,
    pub(crate) lookups: LookupLimiter,
    /// Limits log lines about unauthenticated messages: anyone who can publish can cause them.
    pub(crate) unverified_log: LogThrottle,
    pub(crate) counters: MessageCounters,
    /// Notified when the facts, the classes or the state were read again.
    pub(crate) content_changes: Notify,
    pub(crate) request_metrics: Arc<RequestMetrics>,
    pub(crate) running: RunningRequests,
    /// The instance of the directory on this host, once it runs.
    pub(crate) directory: OnceLock<RunningDirectory>,
    /// The configuration that the daemon runs, to compare it with the files; absent if it does not come from files.
    pub(crate) started_config: OnceLock<StartedConfig>,
    /// The problems found while loading.
    pub health: HealthState,
    /// Another daemon with the same name and key.
    pub(crate) clones: CloneWatch,
    /// Cancelled when the daemon begins to stop or restart; running actions go on until the drain ends.
    pub leaving: CancellationToken,
    started: Millis,
}

impl Deref for DaemonCore {
    type Target = CoreParts;

    fn deref(&self) -> &CoreParts {
        &self.parts
    }
}

impl DaemonCore {
    pub fn new(parts: CoreParts) -> Self {
        let started = parts.clock.now();
        Self {
            freshness: TrustFreshness::starting_at(started),
            tokens: TokenCache::default(),
            collective_names: parts.collectives.iter().map(ToString::to_string).collect(),
            all_agents: parts.registry.get().into(),
            provisioning_only: AtomicBool::new(false),
            agent_problems: SharedValue::new(Vec::new()),
            lookups: LookupLimiter::default(),
            unverified_log: LogThrottle::new(UNVERIFIED_LOG_INTERVAL),
            counters: MessageCounters::default(),
            content_changes: Notify::new(),
            request_metrics: Arc::default(),
            running: RunningRequests::default(),
            directory: OnceLock::new(),
            started_config: OnceLock::new(),
            health: HealthState::default(),
            clones: CloneWatch::new(started),
            leaving: CancellationToken::new(),
            started,
            parts,
        }
    }

    /// The state of a service on this host: it has its own key and agents, and shares trust, policies and the audit log with the node. It only answers queries, so
    /// its requests are not remembered on disk.
    pub(crate) fn for_service(&self, signer: Signer, registry: AgentRegistry) -> Self {
        let nonexistent = Path::new("/nonexistent");
        let sources = FactSources::new(signer.identity().clone(), nonexistent.to_owned());
        Self::new(CoreParts {
            signer,
            trust: self.trust.share(),
            collectives: self.collectives.clone(),
            facts: FactStore::with_facts(sources, self.facts.current()),
            classes: ClassStore::with_classes(nonexistent.to_owned(), self.classes.current()),
            state: NodeStateStore::default(),
            policy: self.policy.share(),
            registry: SharedValue::new(registry),
            data_sources: Arc::clone(&self.data_sources),
            system: Arc::clone(&self.system),
            seen: SeenRequests::in_memory(),
            begun: BegunRequests::disabled(),
            sent_replies: SentReplies::default(),
            audit: Arc::clone(&self.audit),
            skew: self.skew,
            authority: self.authority,
            plain_secrets: false,
            clock: self.clock.clone(),
            config: None,
            config_file: nonexistent.to_owned(),
        })
    }

    pub fn identity(&self) -> &Identity {
        self.signer.identity()
    }

    /// Replaces the account token if the new one is newer and signed by the operator; invalidates verifications under the old one.
    pub fn update_trust(&self, account_token: &str) -> Result<(), TokenError> {
        let newer = self.trust.get().update(account_token)?;
        self.trust.set(newer);
        self.tokens.clear();
        self.audit.set_account(account_token);
        Ok(())
    }

    /// The lifetime of the node's own token; `None` if it never expires.
    pub(crate) fn token_life(&self) -> Option<TokenLife> {
        TokenLife::of_claims(&self.signer.claims())
    }

    /// Whether the account lists another key than the one that signed the node's own token: the key is being rotated.
    pub(crate) fn is_signing_key_rotated(&self) -> bool {
        self.trust.get().has_other_key(&self.signer.claims().iss)
    }

    pub(crate) fn renew_token(&self, token: &str) -> Result<(), NodeTokenRenewalError> {
        renewal::renew_token(&self.signer, &self.trust.get(), token, self.clock.now())
    }

    /// Replaces the agents; calls that were accepted before keep the old registry.
    pub fn set_registry(&self, registry: AgentRegistry) {
        self.all_agents.set(registry);
        self.publish_agents();
    }

    /// Withholds all agents except those for provisioning, or offers all agents. Returns whether this is a change.
    pub fn restrict_to_provisioning(&self, restricted: bool) -> bool {
        let change = self.provisioning_only.swap(restricted, Ordering::AcqRel) != restricted;
        if change {
            self.publish_agents();
        }
        change
    }

    fn publish_agents(&self) {
        let mut offered = AgentRegistry::clone(&self.all_agents.get());
        if self.provisioning_only.load(Ordering::Acquire) {
            for name in self.all_agents.get().names() {
                if !enrolment::PROVISIONING_AGENTS.contains(&name.as_str()) {
                    offered.remove(name);
                }
            }
        }
        self.registry.set(offered);
    }

    /// Every new request does this too; call it for an idle node.
    pub fn forget_expired(&self) {
        self.seen.forget_expired(self.clock.now());
        self.sent_replies.drop_old(Instant::now());
    }

    pub fn snapshot_counters(&self) -> CounterSnapshot {
        self.counters.to_snapshot(self.started)
    }

    /// Calls `read` with the node as filters and policies see it.
    pub(crate) fn with_node_view<T>(&self, read: impl FnOnce(&NodeView<'_>) -> T) -> T {
        let (facts, classes) = (self.facts.current(), self.classes.current());
        let (registry, state) = (self.registry.get(), self.state.current());
        read(
            &NodeView::new(self.identity().as_str(), &facts)
                .with_classes(self.classes.are_known().then_some(&*classes))
                .with_agents(registry.names())
                .with_collectives(&self.collective_names)
                .with_map(MapField::State, state.as_ref().as_ref()),
        )
    }
}

impl fmt::Debug for DaemonCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DaemonCore").field("identity", self.identity()).finish_non_exhaustive()
    }
}

impl fmt::Debug for CoreParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CoreParts")
            .field("identity", self.signer.identity())
            .finish_non_exhaustive()
    }
}

impl NodeHandle for DaemonCore {
    fn identity(&self) -> &Identity {
        self.signer.identity()
    }

    fn collectives(&self) -> &[SubjectName] {
        &self.collectives
    }

    fn facts(&self) -> Arc<NodeFacts> {
        self.facts.current()
    }

    fn state(&self) -> Arc<Option<NodeFacts>> {
        self.state.current()
    }

    fn classes(&self) -> Arc<[String]> {
        self.classes.current()
    }

    fn is_matched_by(&self, filter: &NodeFilter) -> bool {
        self.with_node_view(|node| filter.matches(node))
    }

    fn decide_callers(
        &self,
        agent: &SubjectName,
        action: &SubjectName,
    ) -> Option<Vec<CallerVerdict>> {
        let policy = self.policy.get();
        let decided = |CallerDecision { caller, decision }: CallerDecision| CallerVerdict {
            caller,
            allowed: decision.allowed,
            rule: decision.rule,
            approved_by: decision.approved_by,
        };
        self.authority.tell_rules.then(|| {
            let now = self.clock.now();
            let decisions =
                self.with_node_view(|node| policy.decide_callers((agent, action), node, now));
            decisions.into_iter().map(decided).collect()
        })
    }

    fn agent_infos(&self) -> Vec<AgentInfo> {
        self.registry.get().agent_infos()
    }

    fn agent_problems(&self) -> Vec<AgentProblem> {
        self.agent_problems.get().to_vec()
    }

    fn agent_ddl(&self, agent: &str) -> Option<Arc<AgentDdl>> {
        let registry = self.registry.get();
        registry.agent(agent).map(|agent| Arc::clone(agent.ddl()))
    }

    fn data_sources(&self) -> &[ValidatedDataSource] {
        &self.data_sources
    }

    fn config_item(&self, name: &str) -> Option<Value> {
        self.config.as_ref()?.redacted_item(name)
    }

    fn config_file(&self) -> &Path {
        &self.config_file
    }

    fn running_requests(&self) -> Vec<RunningRequest> {
        self.running.list_requests()
    }

    fn cancel_request(
        &self,
        id: Uuid,
        owner: Option<&RequestOwner>,
        scope: CancelScope,
    ) -> Option<(RunningRequest, bool)> {
        self.running.cancel_request(id, owner, scope)
    }

    fn counter_snapshot(&self) -> CounterSnapshot {
        self.snapshot_counters()
    }

    fn describe_sandboxes(&self) -> BTreeMap<String, String> {
        let config = self.config.as_ref();
        config.map(|config| health::describe_sandboxes(self, config)).unwrap_or_default()
    }

    fn leaving(&self) -> CancellationToken {
        self.leaving.clone()
    }

    fn hand_over(&self, call: &CallContext) {
        self.begun.hand_over(call.work_id());
    }

    fn record_work_end(&self, call: &CallContext, end: &WorkEnd) {
        let Some(record) = AuditRecord::of_work_end(call, end, self.clock.now()) else { return };
        if let Err(error) = self.audit.record_decision(&record) {
            tracing::error!(%error, request = %record.request, "cannot write an audit record");
        }
    }

    fn collect_findings(&self) -> Vec<HealthFinding> {
        health::collect_findings(self, self.config.as_ref())
    }
}
