//! The planner: merging, delays, limits, oscillation.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::wire::Millis;
use uuid::Uuid;

use super::delay::{DelayTerms, choose_delay};
use super::event::{AgainEvent, CausingRun, EndedRun, RunInProgress, SuppressReason};
use super::next::NextStep;
use super::request::AgainRequest;
use super::state::{AgainState, HistoryEnd};
use crate::again::policy::AgainPolicy;

pub(crate) const NOW: Millis = 1_800_000_000_000;
pub(super) const MINUTE: Millis = 60_000;

pub(crate) fn request(number: u128) -> AgainRequest {
    AgainRequest {
        id: Uuid::from_u128(number),
        requester: format!("Exec[again-delta-{number}]"),
        reason: "the volume is not started".to_owned(),
        min_delay: 0,
        max_delay: None,
        group: None,
        not_before: None,
        deadline: None,
        start_timer_now: false,
        noop: false,
        requested_at: NOW,
        process: None,
        when: None,
    }
}

pub(crate) fn run_number(number: u128) -> RunInProgress {
    RunInProgress { run: Some(Uuid::from_u128(number)), process: None }
}

/// A node in a test.
pub(super) struct Node {
    pub(super) state: AgainState,
    pub(super) policy: AgainPolicy,
    seed: u64,
}

impl Node {
    pub(super) fn new() -> Self {
        Self { state: AgainState::default(), policy: AgainPolicy::default(), seed: 7 }
    }

    pub(super) fn apply(&mut self, event: &AgainEvent) {
        self.state.apply(event, &self.policy);
    }

    pub(super) fn ask(&mut self, at: Millis, request: AgainRequest, during: Option<RunInProgress>) {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.apply(&AgainEvent::Requested {
            at,
            request: Box::new(request),
            during,
            seed: self.seed,
        });
    }

    pub(super) fn end(&mut self, at: Millis, run: u128, digest: &str) {
        self.end_as(at, EndedRun { digest: Some(digest.to_owned()), ..ended(run) });
    }

    pub(super) fn end_as(&mut self, at: Millis, run: EndedRun) {
        self.apply(&AgainEvent::RunEnded { at, run: Box::new(run), seed: self.seed });
    }

    pub(super) fn step(&self, at: Millis) -> NextStep {
        self.state.next_step(&self.policy, at)
    }

    /// Begins the pending run at the earliest time from this one on; returns it.
    pub(super) fn start(&mut self, at: Millis, run: u128) -> Millis {
        let mut at = at;
        while let NextStep::Wait { until, .. } = self.step(at) {
            at = until;
        }
        assert_eq!(self.step(at), NextStep::Start);
        self.apply(&AgainEvent::Started { at, run: Uuid::from_u128(run) });
        at
    }
}

pub(crate) fn ended(run: u128) -> EndedRun {
    EndedRun {
        cause: CausingRun { run: Some(Uuid::from_u128(run)), transaction: Some(format!("t{run}")) },
        outcome: "changed".to_owned(),
        ..EndedRun::default()
    }
}

#[test]
fn a1_1_fifty_requests_of_a_run_are_one_pending_run() {
    let mut node = Node::new();
    for number in 0..50 {
        node.ask(NOW, request(number), Some(run_number(1000)));
    }
    // Handing over a request a second time changes nothing.
    node.ask(NOW, request(49), Some(run_number(1000)));
    assert_eq!(node.step(NOW), NextStep::AwaitRunEnd);
    node.end(NOW + 5000, 1000, "a");
    let pending = node.state.pending.clone().unwrap();
    assert_eq!((pending.requests, pending.reasons.len()), (50, 20));
    assert_eq!(pending.cause.clone().unwrap().transaction.as_deref(), Some("t1000"));
    assert_eq!(node.start(NOW + 5000, 1001), NOW + 5000, "no delay was asked for");
    node.end(NOW + 9000, 1001, "b");
    assert_eq!(node.step(NOW + 9000), NextStep::Idle);
    assert_eq!(node.state.history.len(), 1);
    let entry = &node.state.history[0];
    assert_eq!(entry.run, Some(Uuid::from_u128(1001)));
    assert_eq!(entry.cause.run, Some(Uuid::from_u128(1000)), "the chain of causes");
}

#[test]
fn merged_requests_have_the_longest_delay_and_the_earliest_deadline() {
    let mut node = Node::new();
    node.policy.spread = 0;
    let with = |number, min_delay, max_delay, deadline| AgainRequest {
        min_delay,
        max_delay,
        deadline: Some(NOW + deadline),
        ..request(number)
    };
    node.ask(NOW, with(1, 10_000, Some(200_000), 900_000), Some(run_number(9)));
    node.ask(NOW, with(2, 120_000, Some(150_000), 700_000), Some(run_number(9)));
    node.end(NOW + 1000, 9, "a");
    let pending = node.state.pending.clone().unwrap();
    assert_eq!((pending.min_delay, pending.max_delay), (120_000, Some(150_000)));
    assert_eq!(pending.deadline, NOW + 700_000);
    let due = pending.due.unwrap();
    assert!((NOW + 121_000..=NOW + 151_000).contains(&due), "{}", due - NOW);
    // A later request moves the run to a later time, never to an earlier one.
    let late = AgainRequest { not_before: Some(NOW + 300_000), ..request(3) };
    node.ask(NOW + 2000, late, None);
    assert!(node.state.pending.clone().unwrap().due.unwrap() >= NOW + 300_000);
    node.ask(NOW + 3000, request(4), None);
    assert!(node.state.pending.clone().unwrap().due.unwrap() >= NOW + 300_000);
    assert_eq!(node.step(NOW + 700_000), NextStep::Suppress(SuppressReason::Deadline));
}

#[test]
fn a1_2_timers_count_from_the_request_or_from_the_end_of_the_run() {
    let due = |start_timer_now| {
        let mut node = Node::new();
        node.policy.spread = 0;
        let asked = AgainRequest {
            min_delay: 120_000,
            max_delay: Some(120_000),
            start_timer_now,
            ..request(1)
        };
        node.ask(NOW, asked, Some(run_number(9)));
        // However late: the run that asked goes on.
        assert_eq!(node.step(NOW + 600_000), NextStep::AwaitRunEnd);
        node.end(NOW + 50_000, 9, "a");
        node.state.pending.unwrap().due.unwrap()
    };
    assert_eq!(due(true), NOW + 120_000);
    assert_eq!(due(false), NOW + 170_000);
}

#[test]
fn a1_3_a_thousand_nodes_with_equal_delays_have_no_peak() {
    // Ten fleets, so that a lucky one does not decide.
    for fleet in 0..10_u64 {
        let mut bins = BTreeMap::<Millis, u32>::new();
        let mut sequences = BTreeSet::new();
        for number in 0..1000_u64 {
            let policy = AgainPolicy::default();
            let mut backoff = None;
            let mut sequence = Vec::new();
            for repetition in 0..4_u64 {
                // The random number of each node and run, as a good generator gives it.
                let seed = mix(fleet << 32 | number << 4 | repetition);
                let terms = DelayTerms { min: 120_000, max: None, previous_backoff: backoff };
                let delay = choose_delay(terms, &policy, seed);
                assert!(delay.total >= 120_000);
                backoff = Some(delay.backoff.max(policy.backoff_base));
                sequence.push(delay.total);
            }
            *bins.entry(sequence[0] / 1000).or_default() += 1;
            sequences.insert(sequence);
        }
        let span = bins.keys().max().unwrap() - bins.keys().min().unwrap() + 1;
        let mean = 1000.0 / f64::from(u32::try_from(span).unwrap());
        let peak = f64::from(*bins.values().max().unwrap());
        assert!(peak <= 3.0 * mean, "peak {peak}, mean {mean:.1} in {span} s");
        assert_eq!(sequences.len(), 1000, "each node has a sequence of its own");
    }
}

pub(crate) fn mix(number: u64) -> u64 {
    let mixed = number.wrapping_add(0x1234_5678_9abc_def1).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    mixed ^ (mixed >> 33)
}

#[test]
fn a1_3_repetitions_are_delayed_longer_at_random_up_to_the_cap() {
    let policy = AgainPolicy::default();
    let mut previous = None;
    let mut longest = 0;
    for number in 0..200 {
        let terms = DelayTerms { min: 0, max: None, previous_backoff: previous };
        let delay = choose_delay(terms, &policy, mix(number));
        let base = previous.map_or(0, |_| policy.backoff_base);
        let bound = previous.unwrap_or_default().saturating_mul(3).max(base);
        assert!((base..=bound.min(policy.backoff_cap)).contains(&delay.total), "{delay:?}");
        longest = longest.max(delay.total);
        previous = Some(delay.backoff.max(policy.backoff_base));
    }
    assert!(longest > 60_000 && longest <= policy.backoff_cap, "{longest}");
}

/// Asks in the run `number` and begins the next one; each run has other events.
fn turn_chain(node: &mut Node, at: Millis, number: u128) -> Millis {
    let request = AgainRequest { requested_at: at, ..request(number) };
    node.ask(at, request, Some(run_number(1000 + number)));
    node.end(at + 1000, 1000 + number, &format!("events of {number}"));
    node.start(at + 1000, 1001 + number)
}

#[test]
fn a1_4_three_runs_in_ten_minutes_and_ten_in_a_day() {
    let mut node = Node::new();
    let mut starts = Vec::new();
    let mut at = NOW;
    for number in 0..12 {
        at = turn_chain(&mut node, at, number) + 1000;
        starts.push(at - 1000);
    }
    let most_in = |period: Millis| {
        let in_window = |start: &Millis| {
            starts.iter().filter(|other| (*start..start + period).contains(other)).count()
        };
        starts.iter().map(in_window).max().unwrap()
    };
    assert_eq!(most_in(10 * MINUTE), 3, "{starts:?}");
    assert_eq!(most_in(24 * 60 * MINUTE), 10);
    assert!(starts[2] - starts[0] < 2 * MINUTE, "the first three are not limited");
    assert!(starts[3] - starts[0] >= 10 * MINUTE);
    assert!(starts[10] - starts[0] >= 24 * 60 * MINUTE);
}

#[test]
fn a1_4_limited_runs_that_expire_are_suppressed_by_the_budget() {
    let mut node = Node::new();
    node.policy.deadline = 5 * MINUTE;
    let mut at = NOW;
    for number in 0..3 {
        at = turn_chain(&mut node, at, number) + 1000;
    }
    let request = AgainRequest { requested_at: at, ..request(9) };
    node.ask(at, request, Some(run_number(1003)));
    node.end(at, 1003, "last");
    assert!(matches!(node.step(at + MINUTE), NextStep::Wait { is_limited: true, .. }));
    assert_eq!(node.step(at + 5 * MINUTE), NextStep::Suppress(SuppressReason::Budget));
}

#[test]
fn a1_4_two_successive_runs_with_the_same_events_are_oscillating_until_reset() {
    let mut node = Node::new();
    node.ask(NOW, request(1), Some(run_number(100)));
    node.end(NOW + 1000, 100, "same");
    let at = node.start(NOW + 1000, 101);
    node.ask(at, request(2), Some(run_number(101)));
    node.end(at + 1000, 101, "same");
    assert_eq!(node.step(at + 1000), NextStep::Idle, "no further run");
    assert_eq!(node.state.oscillating, Some(at + 1000));
    let kinds = |node: &Node| -> Vec<String> {
        node.state.events.iter().map(|event| event.kind.clone()).collect()
    };
    assert_eq!(kinds(&node).iter().filter(|kind| *kind == "again_oscillating").count(), 1);
    // Further requests are recorded, but begin nothing.
    node.ask(at + 2000, request(3), None);
    assert_eq!(node.step(at + 10 * MINUTE), NextStep::Idle);
    let reason = SuppressReason::Oscillating;
    assert_eq!(node.state.history[2].end, HistoryEnd::Suppressed { reason, by: None });
    node.apply(&AgainEvent::Reset { at: at + 3000, by: "rip".to_owned() });
    node.ask(at + 4000, request(4), None);
    assert_eq!(node.start(at + 4000, 102), at + 4000, "limits are cleared too");
    assert!(kinds(&node).contains(&"again_reset".to_owned()));
}

#[test]
fn runs_with_other_events_are_not_oscillating() {
    let mut node = Node::new();
    let mut at = NOW;
    for number in 0..3_u32 {
        let run = 100 + u128::from(number);
        node.ask(at, request(run), Some(run_number(run)));
        node.end(at + 1000, run, if number == 1 { "b" } else { "a" });
        at = node.start(at + 1000, run + 1);
    }
    assert_eq!(node.state.oscillating, None);
}

#[test]
fn a1_6_runs_and_requests_without_effect_are_only_recorded() {
    let noop = SuppressReason::Noop;
    // By the option of the request.
    let mut node = Node::new();
    node.ask(NOW, AgainRequest { noop: true, ..request(1) }, None);
    // By the run that asked: the configuration of Puppet.
    node.ask(NOW, request(2), Some(run_number(100)));
    node.end_as(NOW + 1000, EndedRun { noop: true, ..ended(100) });
    // By a run or a resource without effect, which does not call the command: from the report, once.
    for _ in 0..2 {
        node.apply(&AgainEvent::WouldRun {
            at: NOW + 2000,
            transaction: Some("t3".to_owned()),
            requesters: vec!["Exec[again]".to_owned()],
        });
    }
    assert_eq!(node.state.history.len(), 3);
    for entry in &node.state.history {
        assert_eq!(entry.end, HistoryEnd::Suppressed { reason: noop, by: None });
    }
    assert_eq!(node.state.history[2].cause.transaction.as_deref(), Some("t3"));
    assert_eq!(node.step(NOW + 3000), NextStep::Idle);
    let texts: Vec<&str> = node.state.events.iter().map(|event| event.text.as_str()).collect();
    assert_eq!(
        texts.iter().filter(|text| text.ends_with("would run again")).count(),
        3,
        "{texts:?}"
    );
}

#[test]
fn a_request_without_effect_leaves_a_pending_run() {
    let mut node = Node::new();
    node.ask(NOW, request(1), None);
    let before = node.state.pending.clone();
    node.ask(NOW, AgainRequest { noop: true, min_delay: 9_000_000, ..request(2) }, None);
    assert_eq!(node.state.pending, before);
}

#[test]
fn a_run_that_could_not_begin_is_pending_again_and_does_not_count() {
    let mut node = Node::new();
    node.ask(NOW, request(1), None);
    node.start(NOW, 5);
    node.apply(&AgainEvent::NotRun {
        at: NOW + 1000,
        problem: "no permit".to_owned(),
        retry_after: MINUTE,
    });
    assert!(node.state.starts.is_empty());
    assert_eq!(node.start(NOW + 1000, 6), NOW + 61_000);
    assert_eq!(node.state.running.as_ref().unwrap().pending.attempts, 1);
}
