//! Publishes what the node is: a signed record in the bucket `NODES` when it changes, and a heartbeat in between.
//!
//! After it connects, a node reads its record from the bucket and writes it only if it differs, after a random delay: so neither a restart of a broker nor one of
//! all nodes makes all of them write, and a bucket that was created again is filled within the delay. It reads it again after every tenth heartbeat. A change is written at once, and so
//! are the next ones, up to a number; then one after each shortest interval. If only the state of a subsystem differs that changes during every Puppet run,
//! the interval is longer. Facts that always change are no change.

mod budget;
mod content;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use muster_api::base::error_chain;
use muster_bus::{Bucket, BucketError, Bus, BusEvent, Bytes, ReconnectBackoff};
use muster_filter::state::{MapField, MapFields, NodeFacts};
use muster_host::AgentRegistry;
use muster_node::config::{Config, RegistrationConfig};
use muster_node::core::DaemonCore;
use muster_wire::Millis;
use muster_wire::compressed::CompressedJsonError;
use muster_wire::node_record::{NodeContent, NodeHeartbeat, NodeRecord};
use muster_wire::sign::{EnvelopeKind, EnvelopeSignError, OpenRecord, open_record, sign_envelope};
use muster_wire::stores::NODES_BUCKET;
use muster_wire::subject;
use tokio::sync::broadcast;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use budget::RecordBudget;
use content::{FactSelection, PromptParts, build_content, largest_facts};

const CHANGE_POLL_INTERVAL: Duration = Duration::from_secs(5);
/// Heartbeats after which a node reads its record in the bucket again.
const CHECK_HEARTBEATS: u32 = 10;
/// Time until a refused or failed write is repeated.
const RETRY_INTERVAL: Duration = Duration::from_mins(1);

/// Why a record was not published.
#[derive(Debug, thiserror::Error)]
enum RegistrationError {
    #[error(
        "the record of this node exceeds the limit of the directory; its largest facts are {0}; exclude some with registration.excluded_facts"
    )]
    TooLarge(String),
    #[error("cannot encode the record of this node")]
    Encode(#[source] CompressedJsonError),
    #[error("cannot sign the record of this node")]
    Sign(#[source] EnvelopeSignError),
    #[error("cannot read the record of this node")]
    Read(#[source] BucketError),
    #[error("cannot write the record of this node")]
    Write(#[source] BucketError),
}

/// The record that the directory has.
struct PublishedRecord {
    digest: String,
    /// What was published without the longer interval of the state.
    prompt: PromptParts,
    /// When the token that signed it was issued.
    token_issued_at: Millis,
    time: Millis,
    at: Instant,
}

/// The parts of the node's state whose change may change the record.
#[derive(Clone)]
struct StateParts {
    maps: MapFields<Option<Arc<NodeFacts>>>,
    classes: Arc<[String]>,
    agents: Arc<AgentRegistry>,
    token: Arc<str>,
}

impl StateParts {
    fn of_core(core: &DaemonCore) -> Self {
        Self {
            maps: core.node.current_maps(),
            classes: core.node.classes.current(),
            agents: core.offer.registry.get(),
            token: core.trust.signer.token(),
        }
    }

    /// Whether nothing was replaced. The parts are replaced as a whole.
    fn is_same(&self, other: &Self) -> bool {
        let is_same_map = |(field, map): (MapField, &Option<Arc<NodeFacts>>)| {
            map.as_ref().map(Arc::as_ptr) == other.maps.get(field).as_ref().map(Arc::as_ptr)
        };
        self.maps.iter().all(is_same_map)
            && Arc::ptr_eq(&self.classes, &other.classes)
            && Arc::ptr_eq(&self.agents, &other.agents)
            && Arc::ptr_eq(&self.token, &other.token)
    }
}

pub struct NodeRegistration {
    core: Arc<DaemonCore>,
    bus: Bus,
    bucket: Bucket,
    config: RegistrationConfig,
    spread: Duration,
    selection: FactSelection,
    budget: RecordBudget,
    published: Option<PublishedRecord>,
    /// Whether the bucket was read since the last connection. While no server serves it, as during an election, nothing is written.
    is_read: bool,
    seen: Option<StateParts>,
    retry_at: Option<Instant>,
}

impl std::fmt::Debug for NodeRegistration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeRegistration")
            .field("node", self.core.identity())
            .finish_non_exhaustive()
    }
}

impl NodeRegistration {
    /// The registration of this node; it waits up to `spread` before it writes after a connection.
    pub fn new(
        core: Arc<DaemonCore>,
        bus: Bus,
        config: RegistrationConfig,
        spread: Duration,
    ) -> Self {
        Self {
            bucket: bus.bucket(NODES_BUCKET.name),
            selection: FactSelection::new(&config),
            budget: RecordBudget::new(config.min_interval),
            published: None,
            is_read: false,
            seen: None,
            retry_at: None,
            core,
            bus,
            config,
            spread,
        }
    }

    pub(crate) fn of_daemon(core: &Arc<DaemonCore>, bus: &Bus, config: &Config) -> Self {
        let (settings, spread) = (config.registration.clone(), config.broker.reconnect_spread);
        Self::new(Arc::clone(core), bus.clone(), settings, spread)
    }

    /// Runs for the lifetime of the daemon.
    pub async fn run(mut self) {
        if !self.config.enabled {
            return;
        }
        let (mut events, core) = (self.bus.subscribe_events(), Arc::clone(&self.core));
        loop {
            self.bus.wait_connected().await;
            sleep(ReconnectBackoff::random_within(self.spread)).await;
            (self.is_read, self.retry_at) = (false, None);
            let mut heartbeat = interval(self.config.heartbeat);
            heartbeat.set_missed_tick_behavior(MissedTickBehavior::Skip);
            let mut poll = interval(CHANGE_POLL_INTERVAL.min(self.config.heartbeat));
            poll.set_missed_tick_behavior(MissedTickBehavior::Skip);
            let mut heartbeats = 0_u32;
            loop {
                tokio::select! {
                    biased;
                    _ = poll.tick() => self.publish_changes().await,
                    () = core.content_changes.notified() => self.publish_changes().await,
                    _ = heartbeat.tick() => {
                        self.send_heartbeat().await;
                        heartbeats = heartbeats.wrapping_add(1);
                        // The bucket may have been deleted and created again.
                        self.is_read &= !heartbeats.is_multiple_of(CHECK_HEARTBEATS);
                    }
                    () = next_connection(&mut events) => break,
                }
            }
        }
    }

    /// Reads the record in the bucket. A record that cannot be opened is written again.
    async fn read_published(&mut self) -> Result<(), RegistrationError> {
        let found = self.read_record().await?;
        self.is_read = true;
        let time_of = |published: &PublishedRecord| published.time;
        if found.is_some()
            && found.as_ref().map(|found| found.record.time) == self.published.as_ref().map(time_of)
        {
            return Ok(());
        }
        self.seen = None;
        self.published = found.map(|OpenRecord { record, sender }| PublishedRecord {
            prompt: self.prompt_parts_of(&record).unwrap_or_default(),
            digest: record.digest,
            token_issued_at: sender.issued_at,
            time: record.time,
            at: Instant::now(),
        });
        Ok(())
    }

    /// The node's record in the bucket; `None` if it has none, or one that is not its own.
    async fn read_record(&self) -> Result<Option<OpenRecord>, RegistrationError> {
        let entry = self.bucket.get(self.core.identity().as_str()).await;
        let entry = entry.map_err(RegistrationError::Read)?;
        let (trust, now) = (self.core.trust.account.get(), self.core.now());
        let value = entry.and_then(|entry| entry.value).unwrap_or_default();
        let opened =
            open_record(&value, self.core.identity(), &trust, &self.core.trust.tokens, now);
        Ok(opened.ok())
    }

    /// The content of a record without facts that always change and without the optional maps.
    fn base_of(&self, record: &NodeRecord) -> Result<NodeContent, CompressedJsonError> {
        Ok(without_optional_maps(&self.selection.stable(&record.decode_content()?)))
    }

    fn prompt_parts_of(&self, record: &NodeRecord) -> Result<PromptParts, CompressedJsonError> {
        PromptParts::of(&self.selection.stable(&record.decode_content()?))
    }

    /// The history of the record in the bucket, with what differs in the new one. It is kept in the bucket only, because it is needed rarely.
    async fn next_history(
        &self,
        base: &NodeContent,
        time: Millis,
    ) -> Result<Option<String>, RegistrationError> {
        if self.published.is_none() {
            return Ok(None);
        }
        let Some(OpenRecord { record, .. }) = self.read_record().await? else { return Ok(None) };
        // An unreadable history is begun again, and so is one after an unreadable content.
        let mut history = record.decode_history().unwrap_or_default();
        if let Ok(before) = self.base_of(&record) {
            history.note(&before, base, time);
        }
        history.compress().map_err(RegistrationError::Encode)
    }

    /// Writes a new record if something changed, or if facts that always change were published long ago.
    async fn publish_changes(&mut self) {
        if self.retry_at.is_some_and(|at| Instant::now() < at) || self.core.clones.yields() {
            return;
        }
        match self.try_publish_changes().await {
            Ok(()) => self.retry_at = None,
            Err(error) => {
                if self.retry_at.is_none() {
                    tracing::warn!(
                        error = error_chain(&error),
                        "the directory does not know this node's newest state"
                    );
                }
                self.retry_at = Some(Instant::now() + RETRY_INTERVAL);
            }
        }
    }

    async fn try_publish_changes(&mut self) -> Result<(), RegistrationError> {
        // A record without the state would replace one that has it, and the next one would wait for the interval of the state.
        if self.core.node.state.is_pending() {
            return Ok(());
        }
        if !self.is_read {
            self.read_published().await?;
        }
        let parts = StateParts::of_core(&self.core);
        let is_refresh_due = self
            .published
            .as_ref()
            .is_none_or(|published| published.at.elapsed() >= self.config.refresh);
        let is_unchanged = self.seen.as_ref().is_some_and(|seen| seen.is_same(&parts));
        if (!is_unchanged || is_refresh_due) && self.publish_record(is_refresh_due).await? {
            self.seen = Some(parts);
        }
        Ok(())
    }

    /// Writes the record if it differs from the published one. Returns whether the published one is up to date then.
    async fn publish_record(&mut self, is_refresh_due: bool) -> Result<bool, RegistrationError> {
        let seconds = u32::try_from(self.config.heartbeat.as_secs()).unwrap_or(u32::MAX);
        let content = build_content(&self.core, &self.selection, seconds);
        let stable = self.selection.stable(&content);
        let identity = self.core.identity().clone();
        let token_issued_at = self.core.trust.signer.claims().iat.saturating_mul(1000);
        let last_time = self.published.as_ref().map_or(0, |published| published.time);
        let time = self.core.now().max(last_time + 1);
        let record = NodeRecord::new(identity, time, &content, &stable)
            .map_err(RegistrationError::Encode)?;
        let base = without_optional_maps(&stable);
        let prompt = PromptParts::of(&stable).map_err(RegistrationError::Encode)?;
        if let Some(published) = self.published.as_ref().filter(|_| !is_refresh_due) {
            let is_same = !prompt.differ_from(&published.prompt)
                && published.token_issued_at == token_issued_at;
            if is_same && published.digest == record.digest {
                return Ok(true);
            }
            let is_too_early = if is_same {
                published.at.elapsed() < self.config.state_interval
            } else {
                !self.budget.has_record(Instant::now())
            };
            if is_too_early && self.seen.is_some() {
                return Ok(false);
            }
        }
        let mut record = record.with_history(self.next_history(&base, time).await?);
        let mut sealed = sign_envelope(EnvelopeKind::Record, &record, &self.core.trust.signer);
        if matches!(sealed, Err(EnvelopeSignError::Oversized { .. })) && record.history.is_some() {
            record = record.with_history(None);
            sealed = sign_envelope(EnvelopeKind::Record, &record, &self.core.trust.signer);
        }
        let sealed = match sealed {
            Err(EnvelopeSignError::Oversized { .. }) => {
                return Err(RegistrationError::TooLarge(largest_facts(&content)));
            }
            sealed => sealed.map_err(RegistrationError::Sign)?,
        };
        self.bucket
            .put(self.core.identity().as_str(), Bytes::from(sealed))
            .await
            .map_err(RegistrationError::Write)?;
        if let Err(problem) = content.check_bounds() {
            let largest = largest_facts(&content);
            tracing::warn!(
                %problem,
                largest,
                "the directory refuses the record of this node and keeps what it knew before; exclude facts with registration.excluded_facts"
            );
        }
        self.budget.take_record(Instant::now());
        self.published = Some(PublishedRecord {
            digest: record.digest,
            prompt,
            token_issued_at,
            time,
            at: Instant::now(),
        });
        Ok(true)
    }

    async fn send_heartbeat(&self) {
        let Some(published) = &self.published else { return };
        let heartbeat = NodeHeartbeat {
            sender: self.core.identity().clone(),
            time: self.core.now(),
            digest: published.digest.clone(),
            boot: self.core.clones.boot(),
        };
        let sealed =
            match sign_envelope(EnvelopeKind::Heartbeat, &heartbeat, &self.core.trust.signer) {
                Ok(sealed) => Bytes::from(sealed),
                Err(error) => return tracing::error!(%error, "cannot sign a heartbeat"),
            };
        let subject = subject::heartbeat(self.core.identity().as_str());
        if let Err(error) = self.bus.publish(&subject, sealed).await {
            tracing::debug!(%error, "cannot send a heartbeat");
        }
    }
}

/// What of a content has a history.
fn without_optional_maps(content: &NodeContent) -> NodeContent {
    NodeContent { optional_maps: BTreeMap::new(), ..content.clone() }
}

/// Waits for the next connection, which may be to a broker with another bucket.
async fn next_connection(events: &mut broadcast::Receiver<BusEvent>) {
    loop {
        match events.recv().await {
            Ok(BusEvent::Connected) | Err(broadcast::error::RecvError::Lagged(_)) => return,
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            Ok(_) => {}
        }
    }
}
