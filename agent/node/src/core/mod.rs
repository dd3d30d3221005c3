//! The state of one daemon, shared by all requests. The pipeline's stages make the decisions.

pub mod audit;
pub mod begun;
pub mod clone_watch;
pub mod counters;
pub mod health;
pub(crate) mod health_state;
pub mod history;
pub mod journals;
pub(crate) mod lookup_limiter;
pub(crate) mod node_handle;
pub mod pending_config;
pub mod reload;
pub mod request_metrics;
pub mod seen;
pub mod sent_replies;

use std::fmt;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use muster_api::{AgentProblem, CounterSnapshot, LogThrottle, ValidatedDataSource};
use muster_filter::state::{NodeFacts, NodeView};
use muster_host::{AgentRegistry, RunningRequests};
use muster_policy::PolicySet;
use muster_wire::Millis;
use muster_wire::identity::Identity;
use muster_wire::sign::Signer;
use muster_wire::token::TokenError;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::config::{Config, PolicyOptions};
use crate::core::clone_watch::CloneWatch;
use crate::core::counters::MessageCounters;
use crate::core::health_state::HealthState;
use crate::core::journals::NodeJournals;
use crate::core::lookup_limiter::LookupLimiter;
use crate::core::pending_config::StartedConfig;
use crate::core::request_metrics::RequestMetrics;
use crate::ground::shared::SharedValue;
use crate::machine::node_description::NodeDescription;
use crate::trust::enrolment;
use crate::trust::node_trust::NodeTrust;

/// Minimum interval between log lines about unauthenticated messages.
const UNVERIFIED_LOG_INTERVAL: Duration = Duration::from_secs(10);

/// What callers can use, and who may use it.
#[derive(Debug)]
pub struct NodeOffer {
    pub registry: SharedValue<AgentRegistry>,
    pub data_sources: Arc<[ValidatedDataSource]>,
    /// The node's policies, applied in addition to the broker's permissions.
    pub policy: SharedValue<PolicySet>,
    pub authority: PolicyOptions,
}

pub struct CoreParts {
    pub trust: Arc<NodeTrust>,
    pub node: NodeDescription,
    pub offer: NodeOffer,
    pub journals: NodeJournals,
    /// The tolerated clock difference, in milliseconds.
    pub skew: Millis,
    /// Whether to accept sensitive inputs that the broker can read.
    pub plain_secrets: bool,
    /// The configuration, for queries.
    pub config: Option<Config>,
    pub config_file: PathBuf,
}

/// Dereferences to its parts: `core.offer`.
pub struct DaemonCore {
    parts: CoreParts,
    pub(crate) collective_names: Vec<String>,
    /// All agents, including those withheld during provisioning.
    pub all_agents: SharedValue<AgentRegistry>,
    provisioning_only: AtomicBool,
    pub agent_problems: SharedValue<Vec<AgentProblem>>,
    pub(crate) lookups: LookupLimiter,
    /// Limits log lines about unauthenticated messages: anyone who can publish can cause them.
    pub(crate) unverified_log: LogThrottle,
    pub counters: MessageCounters,
    /// Notified when the facts, the classes or the state were read again.
    pub content_changes: Notify,
    pub request_metrics: Arc<RequestMetrics>,
    pub running: RunningRequests,
    /// The configuration that the daemon runs, to compare it with the files; absent if it does not come from files.
    pub started_config: OnceLock<StartedConfig>,
    /// The problems found while loading.
    pub health: HealthState,
    /// Another daemon with the same name and key.
    pub clones: CloneWatch,
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
        let started = parts.trust.clock.now();
        Self {
            collective_names: parts.node.collectives.iter().map(ToString::to_string).collect(),
            all_agents: parts.offer.registry.get().into(),
            provisioning_only: AtomicBool::new(false),
            agent_problems: SharedValue::new(Vec::new()),
            lookups: LookupLimiter::default(),
            unverified_log: LogThrottle::new(UNVERIFIED_LOG_INTERVAL),
            counters: MessageCounters::default(),
            content_changes: Notify::new(),
            request_metrics: Arc::default(),
            running: RunningRequests::default(),
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
    #[must_use]
    pub fn for_service(&self, signer: Signer, registry: AgentRegistry) -> Self {
        let (node, offer) = (&self.node, &self.offer);
        Self::new(CoreParts {
            node: NodeDescription::fixed(
                signer.identity(),
                node.collectives.clone(),
                node.facts.current(),
                node.classes.current(),
                Arc::clone(&node.system),
            ),
            offer: NodeOffer {
                registry: SharedValue::new(registry),
                data_sources: Arc::clone(&offer.data_sources),
                policy: offer.policy.share(),
                authority: offer.authority,
            },
            journals: NodeJournals::in_memory(Arc::clone(&self.journals.audit)),
            trust: Arc::new(self.trust.for_service(signer)),
            skew: self.skew,
            plain_secrets: false,
            config: None,
            config_file: PathBuf::from("/nonexistent"),
        })
    }

    pub fn identity(&self) -> &Identity {
        self.trust.identity()
    }

    /// The time by the node's clock.
    pub fn now(&self) -> Millis {
        self.trust.clock.now()
    }

    /// Replaces the account token if the new one is newer and signed by the operator; invalidates verifications under the old one.
    pub fn update_trust(&self, account_token: &str) -> Result<(), TokenError> {
        self.trust.update_account(account_token)?;
        self.journals.audit.set_account(account_token);
        Ok(())
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
        self.offer.registry.set(offered);
    }

    /// Every new request does this too; call it for an idle node.
    pub fn forget_expired(&self) {
        self.journals.seen.forget_expired(self.now());
        self.journals.sent_replies.drop_old(Instant::now());
    }

    pub fn snapshot_counters(&self) -> CounterSnapshot {
        self.counters.to_snapshot(self.started)
    }

    /// Calls `read` with the node as filters and policies see it.
    pub fn with_node_view<T>(&self, read: impl FnOnce(&NodeView<'_>) -> T) -> T {
        let (maps, classes) = (self.node.current_maps(), self.node.classes.current());
        let (registry, no_facts) = (self.offer.registry.get(), NodeFacts::default());
        read(
            &NodeView::new(self.identity().as_str(), &no_facts)
                .with_classes(self.node.classes.are_known().then_some(&*classes))
                .with_agents(registry.names())
                .with_collectives(&self.collective_names)
                .with_maps(&maps),
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
        f.debug_struct("CoreParts").field("identity", self.trust.identity()).finish_non_exhaustive()
    }
}
