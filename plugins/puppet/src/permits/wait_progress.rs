//! What a wait for a permit has learnt so far, and how long it goes on without the bucket. Reads and writes nothing.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use crate::permits::pool::PoolMember;

/// How long a run that does not depend on a permit waits for a bucket that no server serves: longer than elections take.
const STORE_PATIENCE: Duration = Duration::from_secs(30);
/// The same where no bucket is expected: the connected server has no `JetStream`, or the last attempt found no bucket.
const ABSENT_STORE_PATIENCE: Duration = Duration::from_secs(1);
/// How often a wait that has not begun is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
pub(crate) struct WaitProgress(Mutex<WaitState>);

#[derive(Debug, Clone, Default)]
struct WaitState {
    /// When this node's other runs of the pool had ended.
    begun: Option<Instant>,
    /// When the bucket was last read or written.
    last_contact: Option<Instant>,
    last_claims: Vec<PoolMember>,
}

/// How long a wait goes on while no server serves the bucket; `None`: until its deadline.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StorePatience {
    /// Before the first contact.
    pub(crate) first: Option<Duration>,
    /// After a contact.
    pub(crate) later: Option<Duration>,
}

impl StorePatience {
    /// A run with a limit waits until its deadline, unless the connected server has no `JetStream`. A run without one goes on without a
    /// permit.
    pub(crate) fn new(is_limited: bool, has_jetstream: bool, was_absent: bool) -> Self {
        if is_limited {
            return Self { first: (!has_jetstream).then_some(STORE_PATIENCE), later: None };
        }
        let is_expected = has_jetstream && !was_absent;
        let first = if is_expected { STORE_PATIENCE } else { ABSENT_STORE_PATIENCE };
        Self { first: Some(first), later: Some(STORE_PATIENCE) }
    }
}

impl WaitProgress {
    fn update(&self, change: impl FnOnce(&mut WaitState)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn snapshot(&self) -> WaitState {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn record_begin(&self) {
        self.update(|state| state.begun = Some(Instant::now()));
    }

    pub(crate) fn record_contact(&self) {
        self.update(|state| state.last_contact = Some(Instant::now()));
    }

    pub(crate) fn record_claims(&self, claims: Vec<PoolMember>) {
        self.update(|state| state.last_claims = claims);
    }

    pub(crate) fn last_claims(&self) -> Vec<PoolMember> {
        self.snapshot().last_claims
    }

    /// How long the bucket has not been read or written, if that is longer than elections take.
    pub(crate) fn notable_silence(&self) -> Option<Duration> {
        let silence = match self.snapshot() {
            WaitState { last_contact: Some(contact), .. } => contact.elapsed(),
            WaitState { begun: Some(begun), .. } => return Some(begun.elapsed()),
            _ => return None,
        };
        (silence >= STORE_PATIENCE).then_some(silence)
    }

    /// Returns when the bucket has been silent for this long.
    pub(crate) async fn until_silent(&self, patience: StorePatience) {
        loop {
            let state = self.snapshot();
            let end = match (state.last_contact, state.begun) {
                (Some(contact), _) => patience.later.map(|limit| contact + limit),
                (None, Some(begun)) => patience.first.map(|limit| begun + limit),
                (None, None) => None,
            };
            match end {
                Some(end) if end <= Instant::now() => return,
                Some(end) => sleep_until(end).await,
                None => sleep(CHECK_INTERVAL).await,
            }
        }
    }
}
