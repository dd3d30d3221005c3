//! The list of running and waiting requests, and their cancellation.
//!
//! A request is listed from its acceptance until its reply is built, so that no accepted request is missed. The callers of this module decide who
//! may cancel a request.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use muster_api::{CancelScope, RunningRequest};
use muster_wire::identity::Identity;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// The running requests. Clones share one list.
#[derive(Debug, Clone, Default)]
pub struct RunningRequests(Arc<Mutex<BTreeMap<Uuid, RunningEntry>>>);

#[derive(Debug)]
struct RunningEntry {
    request: RunningRequest,
    cancel: CancellationToken,
    withdrawn: CancellationToken,
}

/// An entry in the list, removed on drop.
#[derive(Debug)]
pub struct RunningGuard {
    list: RunningRequests,
    id: Uuid,
    cancel: CancellationToken,
    withdrawn: CancellationToken,
}

impl RunningRequests {
    /// Adds a request.
    pub fn add_request(&self, request: RunningRequest) -> RunningGuard {
        let (id, cancel) = (request.id, CancellationToken::new());
        let withdrawn = cancel.child_token();
        let entry = RunningEntry { request, cancel: cancel.clone(), withdrawn: withdrawn.clone() };
        self.lock_entries().insert(id, entry);
        RunningGuard { list: self.clone(), id, cancel, withdrawn }
    }

    /// All requests, oldest first.
    pub fn list_requests(&self) -> Vec<RunningRequest> {
        let entries = self.lock_entries();
        let mut all: Vec<_> = entries.values().map(|entry| entry.request.clone()).collect();
        all.sort_by_key(|request| (request.since, request.id));
        all
    }

    /// The number of requests.
    pub fn count(&self) -> usize {
        self.lock_entries().len()
    }

    /// Cancels a request; with `of`, only if it belongs to that caller. Returns what it found; `None` if the request is not listed.
    pub fn cancel_request(
        &self,
        id: Uuid,
        of: Option<&Identity>,
        scope: CancelScope,
    ) -> Option<(RunningRequest, bool)> {
        let entries = self.lock_entries();
        let entry = entries.get(&id)?;
        let allowed = of.is_none_or(|caller| *caller == entry.request.caller);
        if allowed {
            match scope {
                CancelScope::All => entry.cancel.cancel(),
                CancelScope::Waiting => entry.withdrawn.cancel(),
            }
        }
        Some((entry.request.clone(), allowed))
    }

    fn lock_entries(&self) -> MutexGuard<'_, BTreeMap<Uuid, RunningEntry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunningGuard {
    /// Cancelled when the request is cancelled.
    pub fn cancel_token(&self) -> &CancellationToken {
        &self.cancel
    }

    /// Cancelled with the request, and when the request is withdrawn: see [`CancelScope::Waiting`].
    pub fn withdrawn_token(&self) -> &CancellationToken {
        &self.withdrawn
    }
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        self.list.lock_entries().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use muster_api::{CancelScope, RunningRequest};
    use uuid::Uuid;

    use super::RunningRequests;

    fn request(caller: &str, since: u64) -> RunningRequest {
        RunningRequest {
            id: Uuid::now_v7(),
            caller: caller.parse().unwrap(),
            agent: "shell".to_owned(),
            action: "run".to_owned(),
            since,
        }
    }

    #[test]
    fn request_is_listed_until_its_ticket_is_dropped() {
        let running = RunningRequests::default();
        let (young, old) =
            (running.add_request(request("rip", 2)), running.add_request(request("ann", 1)));
        let callers = |running: &RunningRequests| {
            let list = running.list_requests();
            list.iter().map(|r| r.caller.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(callers(&running), ["ann", "rip"]);
        drop(old);
        assert_eq!(callers(&running), ["rip"]);
        drop(young);
        assert!(running.list_requests().is_empty());
    }

    #[test]
    fn callers_cancel_only_their_own_requests_unless_any_is_allowed() {
        let running = RunningRequests::default();
        let asked = request("rip", 1);
        let id = asked.id;
        let ticket = running.add_request(asked.clone());
        assert_eq!(running.cancel_request(Uuid::now_v7(), None, CancelScope::All), None);
        let ann = "ann".parse().unwrap();
        assert_eq!(
            running.cancel_request(id, Some(&ann), CancelScope::All),
            Some((asked.clone(), false))
        );
        assert!(!ticket.cancel_token().is_cancelled());
        assert_eq!(
            running.cancel_request(id, Some(&asked.caller), CancelScope::All),
            Some((asked.clone(), true))
        );
        assert!(ticket.cancel_token().is_cancelled());
        assert_eq!(running.cancel_request(id, None, CancelScope::All), Some((asked, true)));
    }

    #[test]
    fn withdrawn_request_is_not_cancelled() {
        let running = RunningRequests::default();
        let request = request("rip", 1);
        let guard = running.add_request(request.clone());
        let withdrawn = running.cancel_request(request.id, None, CancelScope::Waiting);
        assert_eq!(withdrawn, Some((request, true)));
        assert!(guard.withdrawn_token().is_cancelled() && !guard.cancel_token().is_cancelled());
    }
}
