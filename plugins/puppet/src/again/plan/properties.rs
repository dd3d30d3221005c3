//! Properties of the planner for any sequence of events.

use std::collections::BTreeSet;

use muster_api::wire::Millis;
use proptest::prelude::*;
use uuid::Uuid;

use super::barrier::{BarrierCondition, BarrierEnd};
use super::delay::{DelayTerms, choose_delay};
use super::event::{AgainEvent, EndedRun, SuppressReason};
use super::next::NextStep;
use super::request::AgainRequest;
use super::state::AgainState;
use super::tests::{NOW, Node, ended, mix, request, run_number};
use crate::again::policy::AgainPolicy;

/// What happens to a node.
#[derive(Debug, Clone)]
enum Happening {
    Ask { delay: Millis, during: bool, noop: bool, when: Option<u8> },
    Release(u8),
    Expire,
    EndRun { digest: u8, noop: bool },
    Begin,
    Fail,
    Cancel,
    Reset,
    Pass(Millis),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        4 => (0..200_000_u64, any::<bool>(), proptest::bool::weighted(0.1), proptest::option::of(0..20_u8))
            .prop_map(|(delay, during, noop, when)| Happening::Ask { delay, during, noop, when }),
        3 => (0..20_u8).prop_map(Happening::Release),
        2 => Just(Happening::Expire),
        4 => (0..3_u8, proptest::bool::weighted(0.1)).prop_map(|(digest, noop)| Happening::EndRun { digest, noop }),
        4 => Just(Happening::Begin),
        1 => Just(Happening::Fail),
        1 => Just(Happening::Cancel),
        1 => Just(Happening::Reset),
        3 => (0..900_000_u64).prop_map(Happening::Pass),
    ]
}

fn condition(filter: u8) -> BarrierCondition {
    let (query, filter) = (format!("class{filter}"), format!("filter {filter}"));
    BarrierCondition { query, filter, timeout: 300_000 }
}

/// A node with what the test counts.
struct Model {
    node: Node,
    at: Millis,
    number: u128,
    events: Vec<AgainEvent>,
    starts: Vec<Millis>,
    asked: u64,
}

impl Model {
    fn record(&mut self, event: AgainEvent) {
        self.node.apply(&event);
        self.events.push(event);
    }

    /// The event of this happening, if it is possible now.
    fn take(&mut self, happening: &Happening) {
        let at = self.at;
        self.number += 1;
        let step = self.node.step(at);
        match happening {
            Happening::Pass(millis) => self.at += millis,
            Happening::Ask { delay, during, noop, when } => {
                self.asked += 1;
                let request = AgainRequest {
                    min_delay: *delay,
                    noop: *noop,
                    requested_at: at,
                    when: when.map(condition),
                    ..request(self.number)
                };
                let during = during.then(|| run_number(self.number));
                let (request, seed) = (Box::new(request), mix(u64::try_from(self.number).unwrap()));
                self.record(AgainEvent::Requested { at, request, during, seed });
            }
            Happening::EndRun { digest, noop } => {
                let state = &self.node.state;
                let awaited = || state.pending.as_ref()?.waits_for?.run;
                let running = state.running.as_ref().map(|running| running.run);
                let number = running.or_else(awaited).unwrap_or_default().as_u128();
                let run =
                    EndedRun { digest: Some(digest.to_string()), noop: *noop, ..ended(number) };
                self.record(AgainEvent::RunEnded { at, run: Box::new(run), seed: 5 });
            }
            Happening::Begin if step == NextStep::Start => {
                self.starts.push(at);
                self.record(AgainEvent::Started { at, run: Uuid::from_u128(self.number) });
            }
            Happening::Release(filter) => {
                let filter = condition(*filter).filter;
                let pending = self.node.state.pending.iter();
                let barriers = pending.flat_map(|pending| &pending.barriers);
                let ids = barriers.filter(|barrier| barrier.condition.filter == filter);
                let ids = ids.map(|barrier| barrier.id).collect();
                self.record(AgainEvent::BarriersEnded { at, ids, end: BarrierEnd::Released });
            }
            Happening::Expire if step == NextStep::ExpireBarriers => {
                let pending = self.node.state.pending.as_ref();
                let ids = pending.map(|pending| pending.expired_barriers(at)).unwrap_or_default();
                self.record(AgainEvent::BarriersEnded { at, ids, end: BarrierEnd::TimedOut });
                assert_ne!(self.node.step(at), NextStep::ExpireBarriers, "nothing changed");
            }
            Happening::Fail if self.node.state.running.is_some() => {
                self.starts.pop();
                self.record(AgainEvent::NotRun {
                    at,
                    problem: "locked".to_owned(),
                    retry_after: 0,
                });
            }
            Happening::Cancel if self.node.state.pending.is_some() => {
                let reason = SuppressReason::Cancelled;
                self.record(AgainEvent::Suppressed { at, reason, by: Some("rip".to_owned()) });
            }
            Happening::Reset => {
                self.starts.clear();
                self.record(AgainEvent::Reset { at, by: "rip".to_owned() });
            }
            _ => {}
        }
    }
}

proptest! {
    #[test]
    fn no_sequence_of_events_loses_a_request_or_exceeds_a_limit(
        happenings in proptest::collection::vec(happening(), 1..80),
    ) {
        let mut model =
            Model { node: Node::new(), at: NOW, number: 0, events: Vec::new(), starts: Vec::new(), asked: 0 };
        for happening in &happenings {
            model.take(happening);
            let state = &model.node.state;
            // Each request is pending, running, or in the history: as a run, or as one that did not begin for a reason.
            let of_history: u64 = state.history.iter().map(|entry| entry.requests).sum();
            let of_pending = state.pending.as_ref().map_or(0, |pending| pending.requests);
            let of_running = state.running.as_ref().map_or(0, |running| running.pending.requests);
            prop_assert_eq!(of_history + of_pending + of_running, model.asked);
            for limit in &model.node.policy.limits {
                let in_window = |start: &Millis| {
                    model.starts.iter().filter(|other| (*start..start + limit.period).contains(other)).count()
                };
                prop_assert!(model.starts.iter().map(in_window).max().unwrap_or_default() <= limit.count);
            }
            // No run begins that waits for other nodes, and each condition has one entry.
            if let Some(pending) = &state.pending {
                let filters: BTreeSet<&str> =
                    pending.barriers.iter().map(|barrier| barrier.condition.filter.as_str()).collect();
                prop_assert_eq!(filters.len(), pending.barriers.len());
                if pending.open_barriers().count() > 0 {
                    prop_assert_ne!(model.node.step(model.at), NextStep::Start);
                }
            }
            if let Some(running) = &state.running {
                prop_assert_eq!(running.pending.open_barriers().count(), 0);
            }
            if state.oscillating.is_some() {
                prop_assert_ne!(model.node.step(model.at), NextStep::Start);
            }
        }
        // The journal gives the same state again.
        let mut replayed = AgainState::default();
        for event in &model.events {
            let line = serde_json::to_vec(event).unwrap();
            replayed.apply(&serde_json::from_slice(&line).unwrap(), &model.node.policy);
        }
        prop_assert_eq!(&replayed, &model.node.state);
        let ids: BTreeSet<Uuid> = replayed.events.iter().map(|event| event.id).collect();
        prop_assert_eq!(ids.len(), replayed.events.len());
    }

    #[test]
    fn delays_are_bounded_by_what_was_asked_for(
        min in 0..1_000_000_u64,
        more in 0..1_000_000_u64,
        previous in proptest::option::of(0..u64::MAX),
        seed: u64,
    ) {
        let terms = DelayTerms { min, max: Some(min + more), previous_backoff: previous };
        let policy = AgainPolicy::default();
        let delay = choose_delay(terms, &policy, seed);
        prop_assert!((min..=min + more).contains(&delay.total));
        prop_assert!(delay.backoff <= policy.backoff_cap);
    }
}
