//! What all parts of an instance share: the stored schedules as last seen, the directory, and the trust in authors.

use std::fmt;
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use muster_bus::{Bucket, BucketEntry};
use muster_directory::DirectoryHandle;
use muster_schedule::{CompiledSchedule, ScheduleSpec};
use muster_wire::Millis;
use muster_wire::identity::SubjectName;
use muster_wire::schedule_grant::{OpenGrant, open_grant};
use muster_wire::token::{AccountTrust, TokenCache};
use serde_json::Value;
use tokio::sync::watch;

use crate::error::SchedulerError;
use crate::store::{StoreKey, StoredState};

/// How long a change waits until this instance has seen it in the bucket.
const ECHO_TIMEOUT: Duration = Duration::from_secs(2);

pub type TrustSource = Box<dyn Fn() -> Arc<AccountTrust> + Send + Sync>;

/// What an instance gets from its daemon.
pub struct SchedulerContext {
    pub collectives: Vec<SubjectName>,
    /// The index of nodes, which a [`muster_directory::DirectoryService`] keeps current.
    pub directory: DirectoryHandle,
    /// The trust in the account.
    pub trust: TrustSource,
    pub clock: fn() -> Millis,
}

impl fmt::Debug for SchedulerContext {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("SchedulerContext")
            .field("collectives", &self.collectives)
            .finish_non_exhaustive()
    }
}

/// A handle to the shared state of one instance; clones share it.
#[derive(Debug, Clone)]
pub struct SchedulerHandle(Arc<HandleInner>);

#[derive(Debug)]
struct HandleInner {
    context: SchedulerContext,
    bucket: OnceLock<Bucket>,
    tokens: TokenCache,
    state: RwLock<StoredState>,
    /// The revision of the last entry that was applied.
    applied: watch::Sender<u64>,
    /// Whether everything that is stored was read once.
    ready: watch::Sender<bool>,
}

impl SchedulerHandle {
    /// A handle without stored schedules, until a [`crate::SchedulerService`] fills it.
    pub fn new(context: SchedulerContext) -> Self {
        Self(Arc::new(HandleInner {
            context,
            bucket: OnceLock::new(),
            tokens: TokenCache::new(256),
            state: RwLock::default(),
            applied: watch::Sender::new(0),
            ready: watch::Sender::new(false),
        }))
    }

    pub(crate) fn connect(&self, bucket: Bucket) {
        let _ = self.0.bucket.set(bucket);
    }

    pub(crate) fn bucket(&self) -> Result<&Bucket, SchedulerError> {
        self.0.bucket.get().ok_or(SchedulerError::NotConnected)
    }

    pub(crate) fn directory(&self) -> &DirectoryHandle {
        &self.0.context.directory
    }

    pub(crate) fn collectives(&self) -> &[SubjectName] {
        &self.0.context.collectives
    }

    pub(crate) fn now(&self) -> Millis {
        (self.0.context.clock)()
    }

    fn trust(&self) -> Arc<AccountTrust> {
        (self.0.context.trust)()
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, StoredState> {
        self.0.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes at each change of what is stored.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.0.applied.subscribe()
    }

    pub(crate) fn apply(&self, entry: &BucketEntry) {
        self.0.state.write().unwrap_or_else(PoisonError::into_inner).apply(entry);
        self.0.applied.send_replace(entry.revision);
    }

    /// Takes everything that is stored, up to this revision.
    pub(crate) fn replace(&self, state: StoredState, revision: u64) {
        *self.0.state.write().unwrap_or_else(PoisonError::into_inner) = state;
        self.0.applied.send_replace(revision);
        self.0.ready.send_replace(true);
    }

    /// Waits until everything that is stored was read once.
    pub(crate) async fn wait_ready(&self) {
        // The sender is as old as the handle.
        let _ = self.0.ready.subscribe().wait_for(|ready| *ready).await;
    }

    /// Waits until this instance has applied a revision, at most two seconds.
    pub(crate) async fn wait_applied(&self, revision: u64) {
        let mut applied = self.subscribe();
        let _ =
            tokio::time::timeout(ECHO_TIMEOUT, applied.wait_for(|last| *last >= revision)).await;
    }

    /// Deletes the turns and the history of a schedule.
    pub(crate) async fn delete_turns(&self, name: &SubjectName) -> Result<(), SchedulerError> {
        let bucket = self.bucket()?;
        let stored = bucket.list(&format!("*.{name}.>")).await?;
        let keys = stored.into_iter().filter(|entry| entry.value.is_some()).map(|entry| entry.key);
        let own: Vec<String> = StoreKey::all_of(name).iter().map(ToString::to_string).collect();
        for key in keys.filter(|key| own.contains(key)) {
            bucket.delete(&key).await?;
        }
        bucket.delete(&StoreKey::History(name.clone()).to_string()).await?;
        Ok(())
    }

    /// Whether nodes still accept an opened schedule.
    pub(crate) fn check_still_valid(&self, opened: &OpenGrant) -> Result<(), SchedulerError> {
        Ok(opened.check_still_valid(&self.trust(), self.now())?)
    }

    /// Verifies a signed schedule as nodes do, and compiles it.
    pub(crate) fn open_schedule(
        &self,
        text: &str,
    ) -> Result<(OpenGrant, CompiledSchedule), SchedulerError> {
        let opened = open_grant(text, &self.trust(), &self.0.tokens, self.now())?;
        let spec = Value::Object(opened.grant.schedule.clone());
        let schedule = serde_json::from_value::<ScheduleSpec>(spec)?.compile()?;
        opened.check_permission(&schedule.spec().agent, &schedule.spec().action)?;
        Ok((opened, schedule))
    }
}
