//! The shared state of one instance: the index, how current it is, and what changed last.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use muster_bus::Bucket;
use muster_wire::identity::Identity;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::Instant;
use uuid::Uuid;

use crate::liveness::DEFAULT_GRACE_SECONDS;
use crate::node_table::NodeTable;

/// Changes that are remembered for live queries. A query that is further behind reads everything again.
const MAX_CHANGES: usize = 65_536;

/// The note of a forgotten node in the bucket.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct ForgottenNode {
    /// The revision of the record that is left out. A later record is taken.
    pub(crate) revision: u64,
}

/// A handle to the state; clones share it. Empty until a [`crate::DirectoryService`] fills it.
#[derive(Debug, Clone)]
pub struct DirectoryHandle(Arc<HandleInner>);

#[derive(Debug)]
struct HandleInner {
    state: RwLock<DirectoryState>,
    /// The buckets of records and of notes about forgotten nodes.
    buckets: OnceLock<(Bucket, Bucket)>,
    /// Identifies this run of the instance, because changes are counted from its start.
    instance: Uuid,
    /// The number of the last change. Live queries wait for the next one.
    last_change: watch::Sender<u64>,
}

#[derive(Debug)]
pub(crate) struct DirectoryState {
    pub(crate) table: NodeTable,
    /// Whether all records of the bucket were read once.
    pub(crate) is_ready: bool,
    /// Since when every heartbeat was received, as far as is known. `None` while disconnected.
    pub(crate) listening: Option<Instant>,
    /// Time that a heartbeat may be late.
    pub(crate) grace: Duration,
    /// Records that were refused, since the start.
    pub(crate) refused: u64,
    /// Nodes that were forgotten, with the revision of the record that is left out.
    forgotten: HashMap<Identity, u64>,
    /// Numbers of changes, from the oldest one that is remembered, and their nodes.
    changes: VecDeque<(u64, Identity)>,
    last_change: u64,
}

impl Default for DirectoryHandle {
    fn default() -> Self {
        let state = DirectoryState {
            table: NodeTable::default(),
            is_ready: false,
            listening: None,
            grace: Duration::from_secs(DEFAULT_GRACE_SECONDS.into()),
            refused: 0,
            forgotten: HashMap::new(),
            changes: VecDeque::new(),
            last_change: 0,
        };
        Self(Arc::new(HandleInner {
            state: RwLock::new(state),
            buckets: OnceLock::new(),
            instance: Uuid::now_v7(),
            last_change: watch::Sender::new(0),
        }))
    }
}

impl DirectoryHandle {
    /// An empty index; a heartbeat may be late by this time before its node counts as missing, and all records take at most about this memory.
    pub fn with_limits(grace: Duration, memory_mib: u32) -> Self {
        let handle = Self::default();
        {
            let mut state = handle.write();
            state.grace = grace;
            state.table = NodeTable::with_memory_mib(memory_mib);
        }
        handle
    }

    pub(crate) fn connect(&self, records: Bucket, notes: Bucket) {
        let _ = self.0.buckets.set((records, notes));
    }

    /// Identifies this run of the instance.
    pub(crate) fn instance(&self) -> Uuid {
        self.0.instance
    }

    /// The bucket of records, once the service runs.
    pub(crate) fn records(&self) -> Option<&Bucket> {
        self.0.buckets.get().map(|(records, _)| records)
    }

    /// The bucket of notes about forgotten nodes, once the service runs.
    pub(crate) fn notes(&self) -> Option<&Bucket> {
        self.0.buckets.get().map(|(_, notes)| notes)
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, DirectoryState> {
        self.0.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, DirectoryState> {
        self.0.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves out the record of a node with this revision, and wakes live queries.
    pub(crate) fn forget(&self, node: &Identity, revision: u64) {
        let was_known = self.write().forget(node, revision);
        if was_known {
            tracing::info!(%node, "forgot the node");
            self.note_change(node);
        }
    }

    /// Remembers that a node has changed, and wakes live queries.
    pub(crate) fn note_change(&self, node: &Identity) {
        let number = self.write().push_change(node);
        self.0.last_change.send_replace(number);
    }

    /// Waits until the index has this revision of a node's record, or a later one.
    pub(crate) async fn wait_for_revision(&self, node: &Identity, revision: u64) {
        let mut last = self.0.last_change.subscribe();
        let is_known = || self.read().table.get(node).is_some_and(|node| node.revision >= revision);
        let _ = last.wait_for(|_| is_known()).await;
    }

    /// Waits until there is a change after this one.
    pub(crate) async fn wait_for_change(&self, after: u64) {
        let mut last = self.0.last_change.subscribe();
        // The sender is as old as the handle.
        let _ = last.wait_for(|last| *last > after).await;
    }
}

impl DirectoryState {
    /// Leaves out the record of a node with this revision, and earlier ones. Returns whether the node was known with one of them.
    pub(crate) fn forget(&mut self, node: &Identity, revision: u64) -> bool {
        let last = self.forgotten.entry(node.clone()).or_insert(revision);
        *last = revision.max(*last);
        self.table.get(node).is_some_and(|known| known.revision <= revision)
            && self.table.remove(node)
    }

    /// Whether the record of a node with this revision was forgotten.
    pub(crate) fn is_forgotten(&self, node: &Identity, revision: u64) -> bool {
        self.forgotten.get(node).is_some_and(|forgotten| revision <= *forgotten)
    }

    /// Forgets the revisions of a bucket that was deleted, and the notes in it. The nodes stay known.
    pub(crate) fn forget_revisions(&mut self) {
        self.forgotten.clear();
        for node in self.table.iter_mut() {
            node.revision = 0;
        }
    }

    /// Takes records of a node again. Returns whether it was forgotten.
    pub(crate) fn recall(&mut self, node: &Identity) -> bool {
        self.forgotten.remove(node).is_some()
    }

    fn push_change(&mut self, node: &Identity) -> u64 {
        self.last_change += 1;
        if self.changes.len() == MAX_CHANGES {
            self.changes.pop_front();
        }
        self.changes.push_back((self.last_change, node.clone()));
        self.last_change
    }

    pub(crate) fn last_change(&self) -> u64 {
        self.last_change
    }

    /// The nodes that changed after this change, each with its last change, the oldest first; `None` if that is too long ago, or if this instance never counted so far.
    pub(crate) fn changes_after(&self, number: u64) -> Option<Vec<(u64, &Identity)>> {
        let oldest = self.changes.front().map_or(self.last_change + 1, |(number, _)| *number);
        if number > self.last_change || number + 1 < oldest {
            return None;
        }
        let mut found = HashSet::new();
        let later = self.changes.iter().rev().take_while(|(change, _)| *change > number);
        let mut last_changes: Vec<_> = later
            .filter(|(_, node)| found.insert(node))
            .map(|(change, node)| (*change, node))
            .collect();
        last_changes.reverse();
        Some(last_changes)
    }
}
