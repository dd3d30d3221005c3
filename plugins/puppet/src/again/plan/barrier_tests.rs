//! Conditions on other nodes in the planner: times, merging, timeouts, releases.

use muster_api::wire::Millis;
use uuid::Uuid;

use super::barrier::{BarrierCondition, BarrierEnd, MAX_BARRIERS};
use super::event::{AgainEvent, EndedRun, SuppressReason};
use super::next::NextStep;
use super::request::AgainRequest;
use super::state::HistoryEnd;
use super::tests::{MINUTE, NOW, Node, ended, request, run_number};

fn request_when(number: u128, query: &str, minutes: u64) -> AgainRequest {
    let condition = BarrierCondition {
        query: query.to_owned(),
        filter: format!("filter of {query}"),
        timeout: minutes * MINUTE,
    };
    AgainRequest { when: Some(condition), ..request(number) }
}

impl Node {
    /// Asks during the run 1.
    fn ask_in_run(&mut self, request: AgainRequest) {
        self.ask(NOW, request, Some(run_number(1)));
    }

    /// Ends the run 1, whose summary states `ended_at`.
    fn end_run(&mut self, at: Millis, ended_at: Millis) {
        self.end_as(at, EndedRun { ended_at: Some(ended_at), ..ended(1) });
    }

    fn end_barrier(&mut self, at: Millis, id: u128, end: BarrierEnd) {
        self.apply(&AgainEvent::BarriersEnded { at, ids: vec![Uuid::from_u128(id)], end });
    }

    fn release(&mut self, at: Millis, id: u128) {
        self.end_barrier(at, id, BarrierEnd::Released);
    }

    fn kinds(&self) -> Vec<&str> {
        self.state.events.iter().map(|event| event.kind.as_str()).collect()
    }
}

#[test]
fn a1_9_run_waits_until_the_condition_is_released_and_counts_from_the_end_of_the_run() {
    let mut node = Node::new();
    node.ask_in_run(request_when(7, "gluster", 10));
    // The directory cannot know of it yet, so this is no release of it.
    node.release(NOW, 7);
    assert_eq!(node.step(NOW), NextStep::AwaitRunEnd);
    node.end_run(NOW + 5000, NOW + 4321);
    let barrier = node.state.pending.as_ref().unwrap().barriers[0].clone();
    assert_eq!((barrier.id.as_u128(), barrier.after), (7, Some(NOW + 4321)));
    let until = NOW + 5000 + 10 * MINUTE;
    assert_eq!(node.step(NOW + 5000), NextStep::AwaitNodes { until });
    assert_eq!(node.step(until - 1), NextStep::AwaitNodes { until });
    // An id of another condition, and of the run itself, changes nothing.
    let before = node.state.clone();
    node.release(NOW + 6000, 8);
    assert_eq!(node.state, before);
    node.release(NOW + 6000, 7);
    assert_eq!(node.step(NOW + 6000), NextStep::Start);
    // Released twice, by two instances of the directory.
    let before = node.state.clone();
    node.release(NOW + 6001, 7);
    node.end_barrier(until, 7, BarrierEnd::TimedOut);
    assert_eq!(node.state, before);
    node.start(NOW + 6001, 2);
    node.end(NOW + 9000, 2, "x");
    assert_eq!(node.kinds(), ["again_pending", "again_released", "again_running", "again_done"]);
    assert_eq!(node.state.history[0].barrier.as_deref(), Some("barrier released"));
}

#[test]
fn at_the_timeout_the_run_begins_anyway_and_says_so() {
    let mut node = Node::new();
    node.ask_in_run(request_when(7, "gluster", 10));
    node.end_run(NOW, NOW);
    let until = NOW + 10 * MINUTE;
    assert_eq!(node.step(until), NextStep::ExpireBarriers);
    let expired = node.state.pending.as_ref().unwrap().expired_barriers(until);
    assert_eq!(expired, [Uuid::from_u128(7)]);
    node.end_barrier(until, 7, BarrierEnd::TimedOut);
    node.start(until, 2);
    let text = &node.state.events.back().unwrap().text;
    assert!(text.ends_with("; barrier timed out"), "{text}");
    node.end(until + 1, 2, "x");
    assert_eq!(node.kinds(), ["again_pending", "again_timed_out", "again_running", "again_done"]);
    let entry = &node.state.history[0];
    assert_eq!(entry.barrier.as_deref(), Some("barrier timed out"));
    assert!(matches!(entry.end, HistoryEnd::Ran { .. }));
}

#[test]
fn run_waits_for_all_conditions_and_one_of_each_filter() {
    let mut node = Node::new();
    for number in 0..25 {
        node.ask_in_run(request_when(number, "gluster", 10 + u64::try_from(number % 5).unwrap()));
    }
    node.ask_in_run(request_when(40, "mysql", 30));
    node.ask_in_run(request(41));
    node.end_run(NOW, NOW);
    let pending = node.state.pending.clone().unwrap();
    let ids: Vec<u128> = pending.barriers.iter().map(|barrier| barrier.id.as_u128()).collect();
    assert_eq!((pending.requests, ids), (27, vec![24, 40]), "the last request of each filter");
    let expires = pending.barriers[0].expires.unwrap();
    assert_eq!(expires, NOW + 14 * MINUTE, "the longest timeout");
    node.release(NOW, 24);
    assert_eq!(node.step(NOW), NextStep::AwaitNodes { until: NOW + 30 * MINUTE });
    node.release(NOW, 40);
    assert_eq!(node.step(NOW), NextStep::Start);
}

#[test]
fn condition_of_a_later_run_replaces_the_released_one_of_an_earlier_run() {
    let mut node = Node::new();
    node.ask_in_run(AgainRequest { min_delay: MINUTE, ..request_when(7, "gluster", 10) });
    node.end_run(NOW, NOW);
    node.release(NOW + 1, 7);
    // Another run asks before the pending one is due.
    node.ask(NOW + 1000, request_when(8, "gluster", 10), Some(run_number(3)));
    node.end_as(NOW + 2000, EndedRun { ended_at: Some(NOW + 1999), ..ended(3) });
    node.release(NOW + 2000, 7);
    let later = NOW + 5 * MINUTE;
    assert!(matches!(node.step(later), NextStep::AwaitNodes { .. }), "the release was of run 1");
    let barriers = &node.state.pending.as_ref().unwrap().barriers;
    assert_eq!((barriers.len(), barriers[0].after), (1, Some(NOW + 1999)));
    node.release(later, 8);
    assert_eq!(node.step(later), NextStep::Start);
}

#[test]
fn too_many_conditions_are_refused_and_the_pending_run_stays() {
    let mut node = Node::new();
    for number in 0..=MAX_BARRIERS {
        let query = format!("class{number}");
        node.ask_in_run(request_when(u128::try_from(number).unwrap(), &query, 10));
    }
    let pending = node.state.pending.as_ref().unwrap();
    assert_eq!((pending.barriers.len(), pending.requests), (MAX_BARRIERS, 8));
    let refused = HistoryEnd::Suppressed { reason: SuppressReason::Conditions, by: None };
    assert_eq!(node.state.history[0].end, refused);
}

#[test]
fn conditions_survive_a_run_that_could_not_begin() {
    let mut node = Node::new();
    node.ask(NOW, request(1), None);
    node.start(NOW, 2);
    // Puppet outside of the daemon has the lock and asks for a run.
    node.ask(NOW + 1, request_when(7, "gluster", 10), Some(run_number(1)));
    let problem = "locked".to_owned();
    node.apply(&AgainEvent::NotRun { at: NOW + 2, problem, retry_after: 0 });
    assert_eq!(node.step(NOW + 3), NextStep::AwaitRunEnd);
    node.end_run(NOW + 4, NOW + 4);
    assert!(matches!(node.step(NOW + 5), NextStep::AwaitNodes { .. }));
    node.release(NOW + 6, 7);
    assert_eq!(node.step(NOW + MINUTE), NextStep::Start);
}

/// The default deadline of a request does not end a condition before its timeout.
#[test]
fn timeout_is_added_to_the_default_deadline() {
    let mut node = Node::new();
    node.policy.deadline = MINUTE;
    node.ask_in_run(request_when(7, "gluster", 10));
    node.end_run(NOW + MINUTE, NOW + MINUTE);
    let until = NOW + 11 * MINUTE;
    assert_eq!(node.step(until - 1), NextStep::AwaitNodes { until });
    node.end_barrier(until, 7, BarrierEnd::TimedOut);
    assert_ne!(node.step(until - 1), NextStep::AwaitNodes { until });
}
