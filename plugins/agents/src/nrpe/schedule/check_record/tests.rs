//! Properties of the states: compared with a plain model of Nagios, and with what the events say.

use muster_api::wire::Millis;
use muster_contract::nrpe::CheckState::{self, Critical, Ok, Unknown, Warning};
use muster_contract::nrpe::{CheckAcknowledgement, MaintenanceWindow};
use proptest::prelude::*;

use super::{CheckRecord, CheckResult, CheckRules, CheckTransition};
use crate::nrpe::schedule::flapping::FlapThresholds;
use crate::nrpe::schedule::timing::CheckTiming;

const MINUTE: Millis = 60_000;

fn rules(max_attempts: u32) -> CheckRules {
    let timing = CheckTiming {
        interval_millis: 5 * MINUTE,
        retry_millis: MINUTE,
        phase_millis: 7_000,
        is_splayed: true,
    };
    CheckRules { timing, max_attempts, flapping: Some(FlapThresholds::default()) }
}

fn result(state: CheckState, at: Millis) -> CheckResult {
    CheckResult {
        state,
        output: format!("{} at {at}", state.as_str()),
        perfdata: String::new(),
        started: at,
        finished: at + 100,
    }
}

fn window(until: Millis) -> MaintenanceWindow {
    MaintenanceWindow { author: "rip".into(), comment: String::new(), time: 0, until }
}

fn acknowledgement(until: Option<Millis>) -> CheckAcknowledgement {
    CheckAcknowledgement { author: "rip".into(), comment: "known".into(), time: 0, until }
}

/// Runs the check when it is due, and returns the hard state, the attempt and the pause after each result.
fn run_states(
    record: &mut CheckRecord,
    states: &[CheckState],
    max: u32,
) -> Vec<(Option<CheckState>, u32, Millis)> {
    let mut now = record.next_check.unwrap_or(MINUTE);
    let mut steps = Vec::new();
    for state in states {
        record.add_result(result(*state, now), &rules(max), false);
        let next = record.next_check.unwrap();
        steps.push((record.hard, record.attempt, next - now));
        now = next;
    }
    steps
}

#[test]
fn problems_are_hard_after_the_attempts_and_soft_ones_are_retried_sooner() {
    let mut record = CheckRecord::default();
    let steps = run_states(&mut record, &[Ok, Critical, Warning, Critical, Critical, Ok], 3);
    let hard: Vec<_> = steps.iter().map(|(hard, attempt, _)| (*hard, *attempt)).collect();
    assert_eq!(
        hard,
        [
            (Some(Ok), 1),
            (Some(Ok), 1),
            (Some(Ok), 2),
            (Some(Critical), 3),
            (Some(Critical), 3),
            (Some(Ok), 1)
        ]
    );
    let pauses: Vec<_> = steps.iter().map(|(_, _, pause)| *pause).collect();
    assert_eq!(pauses[1..3], [MINUTE, MINUTE], "soft states are retried");
    assert!(pauses[3] > MINUTE && pauses[4] == 5 * MINUTE, "{pauses:?}");
}

#[test]
fn soft_recovery_is_immediate_and_causes_no_event() {
    let mut record = CheckRecord::default();
    let mut events = Vec::new();
    for (number, state) in [Ok, Critical, Critical, Ok, Critical].into_iter().enumerate() {
        let at = u64::try_from(number).unwrap() * MINUTE;
        events.extend(record.add_result(result(state, at), &rules(3), false));
    }
    assert_eq!(events, []);
    assert_eq!((record.hard, record.attempt, record.is_soft()), (Some(Ok), 1, true));
}

#[test]
fn one_attempt_is_hard_at_once_and_other_problems_follow_at_once() {
    let mut record = CheckRecord::default();
    let mut add = |state, at| record.add_result(result(state, at), &rules(1), false);
    assert_eq!(add(Warning, 1), [CheckTransition::Problem(Ok)]);
    assert_eq!(add(Critical, 2), [CheckTransition::Problem(Warning)]);
    assert_eq!(add(Critical, 3), []);
    assert_eq!(add(Unknown, 4), [CheckTransition::Problem(Critical)]);
    assert_eq!(add(Ok, 5), [CheckTransition::Recovery(Unknown)]);
    assert_eq!(record.since, Some(105));
}

#[test]
fn acknowledgement_lasts_until_ok_or_its_end() {
    let mut record = CheckRecord::default();
    assert_eq!(record.acknowledge(acknowledgement(None)), None, "there is no problem");
    record.add_result(result(Warning, 1), &rules(1), false);
    assert!(record.acknowledge(acknowledgement(None)).is_some());
    record.add_result(result(Critical, 2), &rules(1), false);
    assert!(record.acknowledgement.is_some(), "it is sticky");
    assert_eq!(record.expire(Millis::MAX, false), []);
    record.add_result(result(Ok, 3), &rules(1), false);
    assert_eq!(record.acknowledgement, None);
    assert_eq!(record.unacknowledge(None), None);
    record.add_result(result(Critical, 4), &rules(1), false);
    record.acknowledge(acknowledgement(Some(100)));
    assert_eq!(record.expire(99, false), []);
    assert_eq!(record.expire(100, false), [CheckTransition::Unacknowledged(None)]);
    assert_eq!(record.acknowledgement, None);
}

#[test]
fn problems_wait_for_the_end_of_a_maintenance_and_recoveries_do_not() {
    let mut record = CheckRecord::default();
    record.begin_maintenance(window(1000));
    assert_eq!(record.add_result(result(Critical, 1), &rules(1), false), []);
    assert_eq!(record.hard, Some(Critical), "the result is recorded");
    let ended = record.expire(1000, false);
    assert_eq!(ended, [CheckTransition::MaintenanceEnd(None), CheckTransition::Problem(Ok)]);
    record.begin_maintenance(window(3000));
    let recovered = record.add_result(result(Ok, 2000), &rules(1), false);
    assert_eq!(recovered, [CheckTransition::Recovery(Critical)]);
    // One that begins and ends within it is never announced.
    assert_eq!(record.add_result(result(Critical, 2100), &rules(1), false), []);
    assert_eq!(record.add_result(result(Ok, 2200), &rules(1), false), []);
    assert_eq!(record.expire(3000, false), [CheckTransition::MaintenanceEnd(None)]);
    // The same with the node's maintenance.
    assert_eq!(record.add_result(result(Critical, 4000), &rules(1), true), []);
    assert_eq!(record.expire(5000, true), []);
    assert_eq!(record.expire(5001, false), [CheckTransition::Problem(Ok)]);
}

#[test]
fn runs_are_planned_within_the_interval_and_made_up_for() {
    let timing = rules(1).timing;
    let mut record = CheckRecord::default();
    record.plan_run(&timing, 10 * MINUTE);
    assert_eq!(record.next_check, Some(10 * MINUTE + 7_000), "the splay of node and check");
    // A daemon that starts late runs the check at once, and then at the usual time.
    record.plan_run(&timing, 100 * MINUTE);
    assert_eq!(record.next_check, Some(10 * MINUTE + 7_000));
    assert!(record.is_overdue(1000, 100 * MINUTE) && !record.is_overdue(1000, 10 * MINUTE));
    record.add_result(result(Ok, 101 * MINUTE), &rules(1), false);
    assert_eq!(record.next_check, Some(105 * MINUTE + 7_000));
    // The clock was set back, or the interval was shortened.
    record.plan_run(&timing, 20 * MINUTE);
    assert_eq!(record.next_check, Some(20 * MINUTE + 7_000));
    let mut first = CheckRecord::default();
    first.plan_run(&CheckTiming { is_splayed: false, ..timing }, 10 * MINUTE + 1);
    assert_eq!(first.next_check, Some(10 * MINUTE + 1));
    first.add_result(result(Ok, 10 * MINUTE + 1), &rules(1), false);
    assert_eq!(first.next_check, Some(15 * MINUTE + 1));
}

/// Nagios in a few lines: state, attempt and hard state after each result.
fn model(states: &[CheckState], max: u32) -> Vec<(Option<CheckState>, u32)> {
    let (mut hard, mut attempt, mut last) = (None, 0, None);
    let step = |state: &CheckState| {
        if *state == Ok {
            (hard, attempt) = (Some(Ok), 1);
        } else if matches!(hard, Some(Warning | Critical | Unknown)) {
            (hard, attempt) = (Some(*state), max);
        } else {
            attempt = if matches!(last, None | Some(Ok)) { 1 } else { attempt + 1 };
            if attempt >= max {
                hard = Some(*state);
            }
        }
        last = Some(*state);
        (hard, attempt)
    };
    states.iter().map(step).collect()
}

fn any_state() -> impl Strategy<Value = CheckState> {
    (0_i64..4).prop_map(CheckState::from_exit_code)
}

#[derive(Debug, Clone)]
enum Step {
    Result(CheckState, bool),
    Acknowledge(Option<Millis>),
    Unacknowledge,
    Maintain(Millis),
    EndMaintenance(bool),
    Expire(bool),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (any_state(), any::<bool>()).prop_map(|(state, node)| Step::Result(state, node)),
        1 => proptest::option::of(0_u64..5000).prop_map(Step::Acknowledge),
        1 => Just(Step::Unacknowledge),
        1 => (0_u64..5000).prop_map(Step::Maintain),
        1 => any::<bool>().prop_map(Step::EndMaintenance),
        1 => any::<bool>().prop_map(Step::Expire),
    ]
}

proptest! {
    #[test]
    fn hard_states_and_attempts_are_those_of_nagios(states in proptest::collection::vec(any_state(), 0..40), max in 1_u32..6) {
        let mut record = CheckRecord::default();
        let found = run_states(&mut record, &states, max);
        let found: Vec<_> = found.into_iter().map(|(hard, attempt, _)| (hard, attempt)).collect();
        prop_assert_eq!(found, model(&states, max));
    }

    #[test]
    fn events_tell_the_hard_state_and_nothing_is_lost(steps in proptest::collection::vec(any_step(), 0..60), max in 1_u32..4) {
        let mut record = CheckRecord::default();
        let (mut now, mut shown, mut acknowledged) = (0, Ok, false);
        for step in steps {
            now += 100;
            let mut quiet = record.is_in_maintenance(now);
            let transitions = match step {
                Step::Result(state, node) => {
                    quiet |= node;
                    record.add_result(CheckResult { finished: now, ..result(state, now - 10) }, &rules(max), node)
                }
                Step::Acknowledge(after) => Vec::from_iter(record.acknowledge(acknowledgement(after.map(|after| now + after)))),
                Step::Unacknowledge => Vec::from_iter(record.unacknowledge(Some("rip".into()))),
                Step::Maintain(length) => vec![record.begin_maintenance(window(now + length))],
                Step::EndMaintenance(node) => record.end_maintenance(None, now, node),
                Step::Expire(node) => record.expire(now, node),
            };
            for transition in transitions {
                match transition {
                    CheckTransition::Problem(before) => {
                        prop_assert_eq!(before, shown);
                        shown = record.hard.unwrap();
                        prop_assert!(shown != Ok && shown != before);
                    }
                    CheckTransition::Recovery(before) => {
                        prop_assert!(before == shown && before != Ok && record.hard == Some(Ok));
                        shown = Ok;
                    }
                    CheckTransition::Acknowledged(_) => acknowledged = true,
                    CheckTransition::Unacknowledged(_) => { prop_assert!(acknowledged); acknowledged = false; }
                    _ => {}
                }
            }
            if record.hard == Some(Ok) && record.current == Some(Ok) { acknowledged = false; }
            prop_assert_eq!(record.acknowledgement.is_some(), acknowledged);
            prop_assert!(!quiet || record.announced.unwrap_or(Ok) == shown);
            prop_assert!(record.attempt <= max);
            // Bytes on disk are the same state.
            let bytes = serde_json::to_vec(&record).unwrap();
            prop_assert_eq!(&serde_json::from_slice::<CheckRecord>(&bytes).unwrap(), &record);
        }
        // After everything has ended, the events say what is.
        for transition in record.expire(Millis::MAX, false) {
            if matches!(transition, CheckTransition::Problem(_) | CheckTransition::Recovery(_)) {
                shown = record.hard.unwrap();
            }
        }
        prop_assert_eq!(shown, record.hard.unwrap_or(Ok));
    }
}
