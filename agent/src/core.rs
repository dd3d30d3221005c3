//! What one daemon knows and holds, shared by all requests. It decides nothing: the pipeline's stages do.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use muster_api::system::System;
use muster_api::{AgentInfo, AgentProblem, Data, Finding, Node, RunningRequest, Stats, Throttle};
use muster_ddl::Ddl;
use muster_host::{Registry, Running};
use muster_wire::Millis;
use muster_wire::identity::{Identity, Name};
use muster_wire::policy::PolicySet;
use muster_wire::sign::Signer;
use muster_wire::state::{Facts, NodeView};
use muster_wire::token::life::TokenLife;
use muster_wire::token::{TokenCache, TokenError, Trust};
use serde_json::Value;
use uuid::Uuid;

use crate::audit::{AuditError, AuditLog};
use crate::classes::Classes;
use crate::clock::Clock;
use crate::config::Config;
use crate::counters::Counters;
use crate::facts::FactStore;
use crate::health::{self, Health};
use crate::lookup::Gate;
use crate::metrics::tally::Tallies;
use crate::newcomer;
use crate::renewal::{self, RenewalError};
use crate::seen::Seen;
use crate::trust_sync::TrustFreshness;

/// Between two lines of the log about messages that are nobody's.
const QUIET: Duration = Duration::from_secs(10);

/// A value that is read by many and replaced as a whole.
#[derive(Debug)]
pub struct Shared<T>(RwLock<Arc<T>>);

impl<T> Shared<T> {
    /// Begins with this value.
    pub fn new(value: T) -> Self {
        Self::of(Arc::new(value))
    }

    /// Begins with this value, which others may hold already.
    pub fn of(value: Arc<T>) -> Self {
        Self(RwLock::new(value))
    }

    /// The current value.
    pub fn get(&self) -> Arc<T> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces it; those who hold the old one keep it.
    pub fn set(&self, value: T) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(value);
    }
}

/// How strict a node is besides its policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Authority {
    /// Whether callers are told which rule denied them.
    pub tell_rules: bool,
    /// Whether actions that their schema calls dangerous take a second person, whatever the policy says.
    pub approve_dangerous: bool,
}

impl Default for Authority {
    fn default() -> Self {
        Self {
            tell_rules: true,
            approve_dangerous: false,
        }
    }
}

/// Everything that a daemon is made of, before it is connected.
pub struct Parts {
    /// The node's name and key.
    pub signer: Signer,
    /// Whom to believe.
    pub trust: Arc<Trust>,
    /// The collectives; the first is the main one.
    pub collectives: Vec<Name>,
    /// Facts.
    pub facts: FactStore,
    /// Classes.
    pub classes: Classes,
    /// The second lock.
    pub policy: Arc<PolicySet>,
    /// The agents.
    pub registry: Arc<Registry>,
    /// The data sources.
    pub data_sources: Arc<[Data]>,
    /// The machine to act on.
    pub system: Arc<dyn System>,
    /// What was seen.
    pub seen: Seen,
    /// Where decisions are recorded.
    pub audit: Arc<AuditLog>,
    /// How far clocks may differ.
    pub skew: Millis,
    /// How strict it is besides its policies.
    pub authority: Authority,
    /// Whether sensitive inputs are taken that came readable for the broker.
    pub plain_secrets: bool,
    /// The time.
    pub clock: Clock,
    /// The configuration, for those who ask about it.
    pub config: Option<Config>,
    /// The file it came from.
    pub config_file: PathBuf,
}

/// One daemon's state.
pub struct Core {
    pub(crate) signer: Signer,
    pub(crate) trust: Shared<Trust>,
    freshness: TrustFreshness,
    pub(crate) tokens: TokenCache,
    pub(crate) collectives: Vec<Name>,
    pub(crate) collective_names: Vec<String>,
    pub(crate) facts: FactStore,
    pub(crate) classes: Classes,
    pub(crate) policy: Shared<PolicySet>,
    /// What is on offer.
    pub(crate) registry: Shared<Registry>,
    /// What would be, if nothing were held back.
    everything: Shared<Registry>,
    held_back: AtomicBool,
    agent_problems: Shared<Vec<AgentProblem>>,
    pub(crate) data_sources: Arc<[Data]>,
    pub(crate) lookups: Gate,
    pub(crate) system: Arc<dyn System>,
    pub(crate) seen: Seen,
    pub(crate) audit: Arc<AuditLog>,
    /// Lines about messages that are nobody's: whoever can publish can cause them.
    pub(crate) strangers: Throttle,
    pub(crate) counters: Counters,
    pub(crate) tallies: Tallies,
    pub(crate) running: Running,
    pub(crate) health: Health,
    pub(crate) skew: Millis,
    pub(crate) authority: Authority,
    pub(crate) plain_secrets: bool,
    pub(crate) clock: Clock,
    started: Millis,
    config: Option<Config>,
    config_file: PathBuf,
}

impl Core {
    /// Puts the parts together.
    pub fn new(parts: Parts) -> Self {
        Self {
            collective_names: parts.collectives.iter().map(ToString::to_string).collect(),
            started: parts.clock.now(),
            signer: parts.signer,
            trust: Shared::of(parts.trust),
            freshness: TrustFreshness::starting_at(parts.clock.now()),
            tokens: TokenCache::default(),
            collectives: parts.collectives,
            facts: parts.facts,
            classes: parts.classes,
            policy: Shared::of(parts.policy),
            everything: Shared::of(Arc::clone(&parts.registry)),
            held_back: AtomicBool::new(false),
            registry: Shared::of(parts.registry),
            agent_problems: Shared::new(Vec::new()),
            data_sources: parts.data_sources,
            lookups: Gate::default(),
            system: parts.system,
            seen: parts.seen,
            audit: parts.audit,
            strangers: Throttle::new(QUIET),
            counters: Counters::default(),
            tallies: Tallies::default(),
            running: Running::default(),
            health: Health::default(),
            skew: parts.skew,
            authority: parts.authority,
            plain_secrets: parts.plain_secrets,
            clock: parts.clock,
            config: parts.config,
            config_file: parts.config_file,
        }
    }

    /// The node's name.
    pub fn identity(&self) -> &Identity {
        self.signer.identity()
    }

    /// The node's name and key.
    pub fn signer(&self) -> &Signer {
        &self.signer
    }

    /// The account token in force.
    pub fn trust(&self) -> Arc<Trust> {
        self.trust.get()
    }

    /// Takes over a changed account token, if it is newer and the operator's; what was verified under the old one counts no more.
    pub fn update_trust(&self, account_token: &str) -> Result<(), TokenError> {
        let newer = self.trust.get().update(account_token)?;
        self.trust.set(newer);
        self.tokens.clear();
        self.audit.account_changed(account_token);
        Ok(())
    }

    /// The life of the node's own token; `None` if it never ends.
    pub(crate) fn token_life(&self) -> Option<TokenLife> {
        TokenLife::of_claims(&self.signer.claims())
    }

    /// Uses a renewed token of the node's own from now on.
    pub(crate) fn renew_token(&self, token: &str) -> Result<(), RenewalError> {
        renewal::renew(&self.signer, &self.trust(), token, self.now())
    }

    /// Since when it is unknown whether the account token is the newest.
    pub fn trust_freshness(&self) -> &TrustFreshness {
        &self.freshness
    }

    /// The time by the daemon's clock.
    pub(crate) fn now(&self) -> Millis {
        self.clock.now()
    }

    /// What loading left behind.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Replaces the policies.
    pub fn set_policy(&self, policy: PolicySet) {
        self.policy.set(policy);
    }

    /// The agents on offer.
    pub fn registry(&self) -> Arc<Registry> {
        self.registry.get()
    }

    /// The agents that there are, those that are held back too.
    pub fn everything(&self) -> Arc<Registry> {
        self.everything.get()
    }

    /// Replaces the agents; calls that were taken in before keep those that they came for.
    pub fn set_registry(&self, registry: Registry) {
        self.everything.set(registry);
        self.offer();
    }

    /// Holds back all agents but those of a node that is still provisioned, or offers all of them. Whether that is a change.
    pub fn hold_back(&self, yes: bool) -> bool {
        let change = self.held_back.swap(yes, Ordering::AcqRel) != yes;
        if change {
            self.offer();
        }
        change
    }

    fn offer(&self) {
        let mut offer = Registry::clone(&self.everything.get());
        if self.held_back.load(Ordering::Acquire) {
            for name in self.everything.get().names() {
                if !newcomer::OFFERED.contains(&name.as_str()) {
                    offer.remove(name);
                }
            }
        }
        self.registry.set(offer);
    }

    /// Replaces what is told of agents that cannot be offered.
    pub fn set_agent_problems(&self, problems: Vec<AgentProblem>) {
        self.agent_problems.set(problems);
    }

    /// Returns when every audit record is on the disk. Blocks.
    pub fn flush_audit(&self) -> Result<(), AuditError> {
        self.audit.flush()
    }

    /// The same, and the log is signed to its end. Blocks.
    pub fn seal_audit(&self) -> Result<(), AuditError> {
        self.audit.seal()
    }

    /// Opens the audit log's path anew, after it was rotated. Blocks.
    pub fn reopen_audit(&self) -> Result<(), AuditError> {
        self.audit.reopen()
    }

    /// Forgets requests that are over, which every new one does too: for a node that nobody asks any more.
    pub fn forget(&self) {
        self.seen.forget(self.clock.now());
    }

    /// What the daemon has counted.
    pub fn counted(&self) -> Stats {
        self.counters.stats(self.started)
    }

    /// Looks at the node as filters and policies see it.
    pub(crate) fn view<T>(&self, look: impl FnOnce(&NodeView<'_>) -> T) -> T {
        let (facts, classes) = (self.facts.current(), self.classes.current());
        let registry = self.registry.get();
        look(&NodeView {
            identity: self.identity().as_str(),
            facts: &facts,
            classes: &classes,
            classes_known: self.classes.are_known(),
            agents: registry.names(),
            collectives: &self.collective_names,
        })
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core")
            .field("identity", self.identity())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts")
            .field("identity", self.signer.identity())
            .finish_non_exhaustive()
    }
}

impl Node for Core {
    fn identity(&self) -> &Identity {
        self.signer.identity()
    }

    fn collectives(&self) -> &[Name] {
        &self.collectives
    }

    fn facts(&self) -> Arc<Facts> {
        self.facts.current()
    }

    fn classes(&self) -> Arc<[String]> {
        self.classes.current()
    }

    fn agents(&self) -> Vec<AgentInfo> {
        self.registry.get().infos()
    }

    fn agent_problems(&self) -> Vec<AgentProblem> {
        self.agent_problems.get().to_vec()
    }

    fn ddl(&self, agent: &str) -> Option<Arc<Ddl>> {
        let registry = self.registry.get();
        registry.agent(agent).map(|agent| Arc::clone(agent.ddl()))
    }

    fn data_sources(&self) -> &[Data] {
        &self.data_sources
    }

    fn config_item(&self, name: &str) -> Option<Value> {
        self.config.as_ref()?.item(name)
    }

    fn config_file(&self) -> &Path {
        &self.config_file
    }

    fn running(&self) -> Vec<RunningRequest> {
        self.running.list()
    }

    fn cancel(&self, id: Uuid, of: Option<&Identity>) -> Option<(RunningRequest, bool)> {
        self.running.cancel(id, of)
    }

    fn stats(&self) -> Stats {
        self.counted()
    }

    fn sandboxes(&self) -> BTreeMap<String, String> {
        self.config
            .as_ref()
            .map(|config| health::sandboxes(self, config))
            .unwrap_or_default()
    }

    fn findings(&self) -> Vec<Finding> {
        health::findings(self, self.config.as_ref())
    }
}
