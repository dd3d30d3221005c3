//! One instance of the directory: reads all records, and follows changes and heartbeats.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use muster_api::base::error_chain;
use muster_bus::{Bucket, BucketEntry, BucketError, Bus, BusMessage, NewEvent};
use muster_wire::Millis;
use muster_wire::identity::Identity;
use muster_wire::sign::{OpenRecord, Signer};
use muster_wire::stores::{FORGOTTEN_BUCKET, NODES_BUCKET};
use muster_wire::subject;
use muster_wire::token::{AccountTrust, ServiceRight, TokenError};
use serde_json::{Map, json};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;

use crate::node_table::StoredNode;
use crate::record_opener::{
    AuthenticRecord, DirectoryContext, OpenedEntry, RecordOpener, RecordRefusal,
};
use crate::service_input::{
    ListeningChange, buffered_entries, next_heartbeat, next_listening_change,
};
use crate::state::{DirectoryHandle, ForgottenNode};

/// The event that a node has become missing.
const NODE_MISSING: &str = "node_missing";
/// The event that a missing node is back.
const NODE_BACK: &str = "node_back";
/// Interval of the search for missing nodes.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// After a longer time between two searches, this process was stopped in between.
const MAX_CHECK_DELAY: Duration = Duration::from_secs(5);
/// Records that are opened together. The next ones are opened while these are stored.
const SHARE_ENTRIES: usize = 128;
/// Pause before the bucket is opened again.
const REOPEN_INTERVAL: Duration = Duration::from_secs(2);

/// Follows the broker and keeps the index of a [`DirectoryHandle`] current.
pub struct DirectoryService {
    handle: DirectoryHandle,
    bus: Bus,
    records: Bucket,
    /// Notes of forgotten nodes.
    notes: Bucket,
    signer: Signer,
    opener: Arc<RecordOpener>,
}

impl std::fmt::Debug for DirectoryService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DirectoryService").field("signer", &self.signer).finish_non_exhaustive()
    }
}

impl DirectoryService {
    /// A service with the connection and the key of a user with the role service.
    pub fn new(
        handle: DirectoryHandle,
        bus: Bus,
        signer: Signer,
        context: DirectoryContext,
    ) -> Self {
        let [records, notes] =
            [NODES_BUCKET, FORGOTTEN_BUCKET].map(|bucket| bus.bucket(bucket.name));
        handle.connect(records.clone(), notes.clone());
        Self { handle, bus, records, notes, signer, opener: Arc::new(RecordOpener::new(context)) }
    }

    /// While the broker is away, the index stays as it is, and answers say so.
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
        let trust = self.opener.trust();
        self.drop_revoked(&trust);
        let mut watch = self.records.retry_until_dropped().watch(">").await?;
        let mut notes = self.notes.retry_until_dropped().watch(">").await?;
        let mut check = interval(CHECK_INTERVAL);
        check.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut checked = Instant::now();
        loop {
            self.note_ready(watch.is_current() && notes.is_current());
            tokio::select! {
                note = notes.next() => match note? {
                    Some(note) => self.accept_forgotten(&note),
                    None => return Ok(()),
                },
                entry = watch.next() => match entry? {
                    Some(entry) => {
                        let entries = buffered_entries(entry, &mut watch)?;
                        self.accept_entries(entries).await;
                    }
                    None => return Ok(()),
                },
                message = next_heartbeat(&mut heartbeats) => self.accept_heartbeat(&message).await,
                change = next_listening_change(&mut events) => self.note_listening(change),
                // Records of revoked nodes are dropped when all are read again.
                _ = check.tick() => {
                    if !Arc::ptr_eq(&trust, &self.opener.trust()) {
                        return Ok(());
                    }
                    // The bucket was created again, and its revisions begin at 1.
                    if watch.has_stale_revisions() {
                        tracing::warn!("the bucket of records was created again; reading all records");
                        self.handle.write().forget_revisions();
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
        let now = self.opener.now();
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

    fn note_ready(&self, is_current: bool) {
        if is_current && !self.handle.read().is_ready {
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

    /// Opens and stores entries in their order; some are opened while those before them are stored.
    async fn accept_entries(&self, mut entries: Vec<BucketEntry>) {
        let mut shares = Vec::new();
        while !entries.is_empty() {
            let rest = entries.split_off(SHARE_ENTRIES.min(entries.len()));
            shares.push(std::mem::replace(&mut entries, rest));
        }
        let shares = stream::iter(shares).map(|share| self.opener.open_entries(share));
        let mut opened = pin!(shares.buffered(2));
        while let Some(share) = opened.next().await {
            for entry in share {
                self.accept_entry(entry).await;
            }
        }
    }

    /// Stores a record, unless it is forged or older than the known one. A known record that is refused now is dropped: its node was revoked.
    async fn accept_entry(&self, entry: OpenedEntry) {
        let OpenedEntry { node, revision, record } = entry;
        let known = {
            let state = self.handle.read();
            if state.is_forgotten(&node, revision) {
                return;
            }
            state.table.get(&node).map(|known| (known.revision, known.record_time))
        };
        if known.is_some_and(|(known_revision, _)| known_revision == revision) {
            if record.is_err() {
                self.handle.write().table.remove(&node);
                self.handle.note_change(&node);
            }
            return;
        }
        let known_time = known.map(|(_, time)| time);
        match record.and_then(|record| self.store_record(record, revision, known_time)) {
            Ok(was_missing) => {
                self.handle.note_change(&node);
                // Forgotten nodes are not in the table.
                if known.is_none() {
                    self.recall(&node).await;
                }
                if was_missing {
                    self.report_back(&node).await;
                }
            }
            Err(error) => {
                self.handle.write().refused += 1;
                tracing::warn!(%node, %error, "refused a record in the directory");
            }
        }
    }

    /// Forgets a node, or takes its records again after the note was deleted. Only directories may write notes.
    fn accept_forgotten(&self, entry: &BucketEntry) {
        let Ok(node) = Identity::parse(&entry.key) else { return };
        let Some(value) = &entry.value else {
            self.handle.write().recall(&node);
            return;
        };
        match serde_json::from_slice::<ForgottenNode>(value) {
            Ok(forgotten) => self.handle.forget(&node, forgotten.revision),
            Err(error) => tracing::warn!(%node, %error, "cannot read a note of a forgotten node"),
        }
    }

    /// Deletes the note of a node that is back, if it was forgotten; returns whether it was. Every directory does; one deletion more changes nothing.
    async fn recall(&self, node: &Identity) -> bool {
        if !self.handle.write().recall(node) {
            return false;
        }
        tracing::info!(%node, "a forgotten node is back");
        if !ServiceRight::Directory.is_in(&self.signer.claims().nats.tags) {
            return true;
        }
        if let Err(error) = self.notes.delete(node.as_str()).await {
            tracing::warn!(%node, %error, "cannot delete the note of a forgotten node");
        }
        true
    }

    /// Takes the record of a forgotten node that sends heartbeats again: it does not publish one that has not changed.
    async fn restore_record(&self, node: &Identity) {
        match self.records.get(node.as_str()).await {
            Ok(entry) => self.accept_entries(entry.into_iter().collect()).await,
            Err(error) => {
                tracing::warn!(%node, %error, "cannot read the record of a forgotten node");
            }
        }
    }

    /// Returns whether the node had been reported as missing. A record whose content is refused changes nothing of what is known of the node, besides
    /// its problem.
    fn store_record(
        &self,
        authentic: AuthenticRecord,
        revision: u64,
        known_time: Option<Millis>,
    ) -> Result<bool, RecordRefusal> {
        let AuthenticRecord { opened, content, problem } = authentic;
        let OpenRecord { record, sender } = opened;
        // A node gives each record a later time, so another user has written this one again.
        let is_repeated = known_time == Some(record.time);
        let mut state = self.handle.write();
        let state = &mut *state;
        let now = self.opener.now();
        let stored = match &problem {
            None => state.table.store(&record, content, revision, now)?,
            Some(problem) => {
                let problem = error_chain(problem);
                state.table.store_problem(&record, content, revision, now, problem)?
            }
        };
        stored.sender = Some(sender);
        // A record that was written before this instance started is no sign that the node runs.
        let was_missing =
            state.is_ready && !is_repeated && stored.liveness.record_seen(Instant::now(), now);
        if let Some(problem) = state.table.problem_of(&record.sender) {
            state.refused += 1;
            let node = &record.sender;
            tracing::warn!(%node, problem, "refused the content of a record in the directory; the node stays known");
        }
        Ok(was_missing)
    }

    async fn accept_heartbeat(&self, message: &BusMessage) {
        let Some(node) = subject::heartbeat_sender(message.subject()) else { return };
        let heartbeat = match self.opener.open_heartbeat(&node, message.payload()) {
            Ok(heartbeat) => heartbeat,
            Err(error) => return tracing::debug!(%node, %error, "refused a heartbeat"),
        };
        let seen = self.handle.write().table.get_mut(&node).map(|stored| {
            let now = Instant::now();
            stored.liveness.record_daemon(heartbeat.boot, heartbeat.time, now);
            stored.liveness.record_seen(now, self.opener.now())
        });
        let Some(was_missing) = seen else {
            if self.recall(&node).await {
                self.restore_record(&node).await;
            }
            return;
        };
        if was_missing {
            self.handle.note_change(&node);
            self.report_back(&node).await;
        }
    }

    /// Publishes an event for a node that was reported as missing and is not any more.
    async fn report_back(&self, node: &Identity) {
        tracing::info!(%node, "a missing node is back");
        let text = format!("{node} sends heartbeats again");
        self.publish_event(node, NODE_BACK, text).await;
    }

    /// Publishes an event for each node that has become missing.
    async fn report_missing(&self) {
        let missing: Vec<Identity> = {
            let mut state = self.handle.write();
            let (Some(listening), now) = (state.listening, Instant::now()) else { return };
            let grace = state.grace;
            let nodes = state.table.iter_mut();
            let missing = nodes.filter_map(|node| {
                node.liveness.report_missing(now, listening, grace).then(|| node.identity.clone())
            });
            missing.collect()
        };
        for node in missing {
            self.handle.note_change(&node);
            let text = format!("{node} has sent no heartbeat for two intervals");
            self.publish_event(&node, NODE_MISSING, text).await;
        }
    }

    /// A failure is logged: the state of the node is in the index anyway.
    async fn publish_event(&self, node: &Identity, kind: &'static str, text: String) {
        let data = Map::from_iter([("node".to_owned(), json!(node))]);
        let event = NewEvent { kind, text, data, time: self.opener.now() };
        if let Err(error) = self.bus.publish_event(&self.signer, event).await {
            let error = error_chain(&error);
            tracing::warn!(%node, kind, error, "cannot publish an event about a node");
        }
    }
}
