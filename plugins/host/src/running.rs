//! The list of running and waiting requests, and their cancellation.
//!
//! A request is listed from its acceptance until its reply is built, so that no accepted request is missed. Senders choose the ids of their requests: an
//! entry is found by its work id, so that a request with the id of another sender's request neither replaces nor removes its entry. The callers of this
//! module decide who may cancel a request.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use muster_api::{CancelScope, RequestOwner, RunningRequest};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// The running requests, by work id. Clones share one list.
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
    work: Uuid,
    cancel: CancellationToken,
    withdrawn: CancellationToken,
}

impl RunningRequests {
    /// Adds a request with this [work id](muster_wire::request::work_id).
    pub fn add_request(&self, work: Uuid, request: RunningRequest) -> RunningGuard {
        let cancel = CancellationToken::new();
        let withdrawn = cancel.child_token();
        let entry = RunningEntry { request, cancel: cancel.clone(), withdrawn: withdrawn.clone() };
        self.lock_entries().insert(work, entry);
        RunningGuard { list: self.clone(), work, cancel, withdrawn }
    }

    /// All requests, oldest first.
    pub fn list_requests(&self) -> Vec<RunningRequest> {
        let entries = self.lock_entries();
        let mut all: Vec<_> = entries.values().map(|entry| entry.request.clone()).collect();
        all.sort_by_key(|request| (request.since, request.id));
        all
    }

    pub fn count(&self) -> usize {
        self.lock_entries().len()
    }

    pub fn includes(&self, work: Uuid) -> bool {
        self.lock_entries().contains_key(&work)
    }

    /// Cancels the requests with this id; with `of`, only those of that user. Returns one of them and whether it was cancelled; `None` if none is listed.
    pub fn cancel_request(
        &self,
        id: Uuid,
        of: Option<&RequestOwner>,
        scope: CancelScope,
    ) -> Option<(RunningRequest, bool)> {
        let entries = self.lock_entries();
        let mut refused = None;
        let mut cancelled = None;
        for entry in entries.values().filter(|entry| entry.request.id == id) {
            if of.is_some_and(|owner| *owner != entry.request.owner) {
                refused = Some((entry.request.clone(), false));
                continue;
            }
            match scope {
                CancelScope::All => entry.cancel.cancel(),
                CancelScope::Waiting => entry.withdrawn.cancel(),
            }
            cancelled = Some((entry.request.clone(), true));
        }
        cancelled.or(refused)
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
        self.list.lock_entries().remove(&self.work);
    }
}

#[cfg(test)]
mod tests {
    use muster_api::{CancelScope, RequestOwner, RunningRequest};
    use muster_wire::request::work_id;
    use muster_wire::token::UserRole;
    use uuid::Uuid;

    use super::{RunningGuard, RunningRequests};

    fn owner(name: &str, role: UserRole) -> RequestOwner {
        RequestOwner { name: name.parse().unwrap(), role }
    }

    fn request(caller: &str, since: u64) -> RunningRequest {
        RunningRequest {
            id: Uuid::now_v7(),
            owner: owner(caller, UserRole::Caller),
            agent: "shell".to_owned(),
            action: "run".to_owned(),
            since,
        }
    }

    fn add(running: &RunningRequests, request: &RunningRequest) -> RunningGuard {
        let key = format!("{} {}", request.owner.role, request.owner.name);
        running.add_request(work_id(&key, request.id), request.clone())
    }

    #[test]
    fn request_is_listed_until_its_guard_is_dropped() {
        let running = RunningRequests::default();
        let (young, old) = (add(&running, &request("rip", 2)), add(&running, &request("ann", 1)));
        let callers = |running: &RunningRequests| {
            let list = running.list_requests();
            list.iter().map(|r| r.owner.name.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(callers(&running), ["ann", "rip"]);
        drop(old);
        assert_eq!(callers(&running), ["rip"]);
        drop(young);
        assert!(running.list_requests().is_empty());
    }

    #[test]
    fn users_cancel_only_their_own_requests_unless_any_is_allowed() {
        let running = RunningRequests::default();
        let asked = request("rip", 1);
        let id = asked.id;
        let guard = add(&running, &asked);
        assert_eq!(running.cancel_request(Uuid::now_v7(), None, CancelScope::All), None);
        for other in [owner("ann", UserRole::Caller), owner("rip", UserRole::Service)] {
            let refused = running.cancel_request(id, Some(&other), CancelScope::All);
            assert_eq!(refused, Some((asked.clone(), false)));
        }
        assert!(!guard.cancel_token().is_cancelled());
        assert_eq!(
            running.cancel_request(id, Some(&asked.owner), CancelScope::All),
            Some((asked.clone(), true))
        );
        assert!(guard.cancel_token().is_cancelled());
        assert_eq!(running.cancel_request(id, None, CancelScope::All), Some((asked, true)));
    }

    #[test]
    fn requests_of_two_users_with_one_id_are_apart() {
        let running = RunningRequests::default();
        let asked = request("rip", 1);
        let copy = RunningRequest { id: asked.id, ..request("ann", 2) };
        let (guard, copy_guard) = (add(&running, &asked), add(&running, &copy));
        assert_eq!(running.list_requests(), [asked.clone(), copy.clone()]);
        let cancelled = running.cancel_request(asked.id, Some(&copy.owner), CancelScope::All);
        assert_eq!(cancelled, Some((copy, true)));
        assert!(copy_guard.cancel_token().is_cancelled() && !guard.cancel_token().is_cancelled());
        drop(copy_guard);
        let cancelled = running.cancel_request(asked.id, Some(&asked.owner), CancelScope::All);
        assert_eq!(cancelled, Some((asked, true)));
        assert!(guard.cancel_token().is_cancelled());
    }

    #[test]
    fn withdrawn_request_is_not_cancelled() {
        let running = RunningRequests::default();
        let request = request("rip", 1);
        let guard = add(&running, &request);
        let withdrawn = running.cancel_request(request.id, None, CancelScope::Waiting);
        assert_eq!(withdrawn, Some((request, true)));
        assert!(guard.withdrawn_token().is_cancelled() && !guard.cancel_token().is_cancelled());
    }
}
