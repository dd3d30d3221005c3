//! One instance of the directory: reads all records, and follows changes and heartbeats.

use std::sync::Arc;
use std::time::Duration;

use muster_bus::{
    Bucket, BucketEntry, BucketError, BucketWatch, Bus, BusEvent, BusMessage, BusSubscription,
    Bytes,
};
use muster_wire::Millis;
use muster_wire::event::FleetEvent;
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::sign::{
    EnvelopeKind, OpenRecord, Signer, open_heartbeat, open_record, sign_envelope,
};
use muster_wire::stores::NODES_BUCKET;
use muster_wire::subject::{self, EventAddress};
use muster_wire::token::{AccountTrust, TokenCache, TokenError};
use serde_json::{Map, json};
use tokio::sync::broadcast;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::node_table::StoredNode;
use crate::state::DirectoryHandle;

/// Interval of the search for missing nodes.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// After a longer time between two searches, this process was stopped in between.
const MAX_CHECK_DELAY: Duration = Duration::from_secs(5);
/// Pause before the bucket is opened again.
const REOPEN_INTERVAL: Duration = Duration::from_secs(2);

/// The account token in force, and the time.
pub struct DirectoryContext {
    /// Returns the newest account token that this host knows.
    pub trust: Box<dyn Fn() -> Arc<AccountTrust> + Send + Sync>,
    /// Returns the time.
    pub clock: fn() -> Millis,
}

impl std::fmt::Debug for DirectoryContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DirectoryContext").finish_non_exhaustive()
    }
}

/// Follows the broker and keeps the index of a [`DirectoryHandle`] current.
pub struct DirectoryService {
    handle: DirectoryHandle,
    bus: Bus,
    bucket: Bucket,
    signer: Signer,
    context: DirectoryContext,
    tokens: TokenCache,
}

impl std::fmt::Debug for DirectoryService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DirectoryService").field("signer", &self.signer).finish_non_exhaustive()
    }
}

/// A loss of the connection, or of messages: heartbeats may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListeningChange {
    Lost,
    Restored,
}

impl DirectoryService {
    /// A service with the connection and the key of a user with the role service.
    pub fn new(
        handle: DirectoryHandle,
        bus: Bus,
        signer: Signer,
        context: DirectoryContext,
    ) -> Self {
        let bucket = bus.bucket(NODES_BUCKET.name).retry_until_dropped();
        handle.connect(bus.bucket(NODES_BUCKET.name));
        Self { handle, bus, bucket, signer, context, tokens: TokenCache::default() }
    }

    /// Runs until it is stopped. While the broker is away, the index stays as it is, and answers say so.
    pub async fn run_until_stopped(self, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.run() => {}
        }
    }

    async fn run(self) {
        loop {
            if let Err(error) = self.follow().await {
                tracing::warn!(%error, "the directory cannot follow the records of nodes; opening them again");
            }
            sleep(REOPEN_INTERVAL).await;
        }
    }

    async fn follow(&self) -> Result<(), BucketError> {
        let mut events = self.bus.subscribe_events();
        let heartbeats = self.bus.subscribe_all(&[subject::ALL_HEARTBEATS.to_owned()]).await;
        let mut heartbeats = match heartbeats.map(|mut found| found.pop()) {
            Ok(Some(heartbeats)) => heartbeats,
            Ok(None) => return Ok(()),
            Err(error) => {
                tracing::warn!(%error, "the directory cannot subscribe to heartbeats");
                return Ok(());
            }
        };
        self.handle.write().listening = Some(Instant::now());
        let trust = (self.context.trust)();
        self.drop_revoked(&trust);
        let mut watch = self.bucket.watch(">").await?;
        let mut check = interval(CHECK_INTERVAL);
        check.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut checked = Instant::now();
        loop {
            self.note_ready(&watch);
            tokio::select! {
                entry = watch.next() => match entry? {
                    Some(entry) => self.accept_entry(&entry),
                    None => return Ok(()),
                },
                message = next_heartbeat(&mut heartbeats) => self.accept_heartbeat(&message),
                change = next_listening_change(&mut events) => self.note_listening(change),
                // Records of revoked nodes are dropped when all are read again.
                _ = check.tick() => {
                    if !Arc::ptr_eq(&trust, &(self.context.trust)()) {
                        return Ok(());
                    }
                    // This process was stopped, and heartbeats wait to be read.
                    if checked.elapsed() > MAX_CHECK_DELAY {
                        self.note_listening(ListeningChange::Restored);
                    }
                    checked = Instant::now();
                    self.report_missing().await;
                }
            }
        }
    }

    /// Drops the records of users who are revoked now, also those that are not in the bucket any more.
    fn drop_revoked(&self, trust: &AccountTrust) {
        let now = (self.context.clock)();
        let is_revoked = |node: &&StoredNode| {
            let sender = node.sender.as_ref();
            let checked = sender.map(|sender| trust.check_still_valid(sender, now));
            matches!(checked, Some(Err(TokenError::Revoked(_))))
        };
        let revoked: Vec<Identity> = {
            let state = self.handle.read();
            let nodes = state.table.iter().filter(is_revoked);
            nodes.map(|node| node.identity.clone()).collect()
        };
        for node in revoked {
            tracing::info!(%node, "the node is revoked; the directory drops its record");
            self.handle.write().table.remove(&node);
            self.handle.note_change(&node);
        }
    }

    fn note_ready(&self, watch: &BucketWatch) {
        if watch.is_current() && !self.handle.read().is_ready {
            let mut state = self.handle.write();
            state.is_ready = true;
            tracing::info!(
                nodes = state.table.len(),
                refused = state.refused,
                "the directory is ready"
            );
        }
    }

    fn note_listening(&self, change: ListeningChange) {
        self.handle.write().listening = match change {
            ListeningChange::Lost => None,
            ListeningChange::Restored => Some(Instant::now()),
        };
    }

    /// Takes a record, unless it is forged, older than the known one, or deleted: a node that deletes its own record stays known. A known record that is refused
    /// now is dropped: its node was revoked.
    fn accept_entry(&self, entry: &BucketEntry) {
        let Some(value) = &entry.value else { return };
        let Ok(node) = Identity::parse(&entry.key) else { return };
        let known =
            self.handle.read().table.get(&node).map(|known| (known.revision, known.record_time));
        let is_known = known.is_some_and(|(revision, _)| revision == entry.revision);
        let (trust, now) = ((self.context.trust)(), (self.context.clock)());
        let opened = open_record(value, &node, &trust, &self.tokens, now);
        if is_known {
            if opened.is_err() {
                self.handle.write().table.remove(&node);
                self.handle.note_change(&node);
            }
            return;
        }
        let accepted = opened.map_err(|error| error.to_string()).and_then(|opened| {
            let OpenRecord { record, sender } = opened;
            let content = record.decode_content().map_err(|error| error.to_string())?;
            // A node gives each record a later time, so another user has written this one again.
            let is_repeated = known.is_some_and(|(_, time)| time == record.time);
            let (mut state, heard) = (self.handle.write(), Instant::now());
            let is_ready = state.is_ready;
            let stored = state
                .table
                .store(&record, content, entry.revision, now)
                .map_err(|error| error.to_string())?;
            stored.sender = Some(sender);
            // A record that was written before this instance started is no sign that the node runs.
            if is_ready && !is_repeated {
                stored.liveness.record_seen(heard);
            }
            Ok(())
        });
        match accepted {
            Ok(()) => self.handle.note_change(&node),
            Err(why) => {
                self.handle.write().refused += 1;
                tracing::warn!(%node, why, "refused a record in the directory");
            }
        }
    }

    fn accept_heartbeat(&self, message: &BusMessage) {
        let name = message.subject().strip_prefix("_B.").map(Identity::parse);
        let Some(Ok(node)) = name else { return };
        let (trust, now) = ((self.context.trust)(), (self.context.clock)());
        if let Err(error) = open_heartbeat(message.payload(), &node, &trust, &self.tokens, now) {
            tracing::debug!(%node, %error, "refused a heartbeat");
            return;
        }
        let was_missing = match self.handle.write().table.get_mut(&node) {
            Some(stored) => stored.liveness.record_seen(Instant::now()),
            None => false,
        };
        if was_missing {
            tracing::info!(%node, "a missing node is back");
            self.handle.note_change(&node);
        }
    }

    /// Publishes an event for each node that has become missing.
    async fn report_missing(&self) {
        let missing: Vec<Identity> = {
            let mut state = self.handle.write();
            let (Some(listening), now) = (state.listening, Instant::now()) else { return };
            let nodes = state.table.iter_mut();
            let missing = nodes.filter_map(|node| {
                node.liveness.report_missing(now, listening).then(|| node.identity.clone())
            });
            missing.collect()
        };
        for node in missing {
            self.handle.note_change(&node);
            if let Err(error) = self.publish_missing(&node).await {
                tracing::warn!(%node, error, "cannot publish that a node is missing");
            }
        }
    }

    async fn publish_missing(&self, node: &Identity) -> Result<(), String> {
        let kind = SubjectName::parse("node_missing").map_err(|error| error.to_string())?;
        let sender = self.signer.identity().clone();
        let mut data = Map::new();
        data.insert("node".to_owned(), json!(node));
        let event = FleetEvent {
            id: Uuid::now_v7(),
            sender: sender.clone(),
            kind: kind.clone(),
            text: format!("{node} has sent no heartbeat for two intervals"),
            data,
            time: (self.context.clock)(),
        };
        let sealed = sign_envelope(EnvelopeKind::Event, &event, &self.signer);
        let sealed = sealed.map_err(|error| error.to_string())?;
        let subject = EventAddress { kind, node: sender }.subject();
        let published = self.bus.publish(&subject, Bytes::from(sealed)).await;
        published.map_err(|error| error.to_string())
    }
}

/// The next heartbeat. The subscription ends with the connection, and then nothing comes.
async fn next_heartbeat(heartbeats: &mut BusSubscription) -> BusMessage {
    match heartbeats.next().await {
        Some(message) => message,
        None => std::future::pending().await,
    }
}

/// The next time that heartbeats may have been lost, or are received again.
async fn next_listening_change(events: &mut broadcast::Receiver<BusEvent>) -> ListeningChange {
    loop {
        match events.recv().await {
            Ok(BusEvent::Disconnected) => return ListeningChange::Lost,
            Ok(BusEvent::Connected | BusEvent::SlowConsumer)
            | Err(broadcast::error::RecvError::Lagged(_)) => return ListeningChange::Restored,
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            Ok(_) => {}
        }
    }
}
