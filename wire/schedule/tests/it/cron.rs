//! Cron expressions: fields, changes of clocks, and bounded work.

use muster_schedule::CompiledSchedule;
use proptest::prelude::*;
use serde_json::json;

use crate::fleet::{HOUR, at, schedule, spec};

fn berlin(expression: &str) -> CompiledSchedule {
    schedule(json!({"cron": expression, "time_zone": "Europe/Berlin"}))
}

fn next(schedule: &CompiledSchedule, after: &str) -> String {
    let slot = schedule.next_slot_after(at(after)).unwrap();
    assert!(schedule.is_slot(slot));
    assert_eq!(schedule.last_slot_at(slot), Some(slot));
    muster_base::format_rfc3339(slot).replace(".000", "")
}

#[test]
fn fields_are_those_of_cron() {
    for (expression, after, expected) in [
        ("0 3 * * *", "2026-03-02T03:00:00Z", "2026-03-03T03:00:00Z"),
        ("*/20 * * * *", "2026-03-02T03:00:00Z", "2026-03-02T03:20:00Z"),
        ("0 9-17/4 * * MON-FRI", "2026-03-06T17:00:00Z", "2026-03-09T09:00:00Z"),
        ("30 4 1,15 * *", "2026-03-02T00:00:00Z", "2026-03-15T04:30:00Z"),
        // Day of month or day of week, if both are given.
        ("0 0 13 * FRI", "2026-03-02T00:00:00Z", "2026-03-06T00:00:00Z"),
        ("0 0 13 * FRI", "2026-04-10T00:00:00Z", "2026-04-13T00:00:00Z"),
        ("0 0 * * 7", "2026-03-02T00:00:00Z", "2026-03-08T00:00:00Z"),
        ("0 0 29 2 *", "2026-03-02T00:00:00Z", "2028-02-29T00:00:00Z"),
    ] {
        let schedule = schedule(json!({"cron": expression}));
        assert_eq!(next(&schedule, after), expected, "{expression}");
    }
}

/// In Berlin, 02:00 to 03:00 does not exist on 2026-03-29: what is due then runs at 03:00, once.
#[test]
fn time_that_is_skipped_runs_at_the_end_of_the_gap() {
    let nightly = berlin("30 2 * * *");
    assert_eq!(next(&nightly, "2026-03-28T12:00:00Z"), "2026-03-29T01:00:00Z");
    assert_eq!(next(&nightly, "2026-03-29T01:00:00Z"), "2026-03-30T00:30:00Z");
    let often = berlin("*/15 2,3 * * *");
    assert_eq!(next(&often, "2026-03-28T12:00:00Z"), "2026-03-29T01:00:00Z");
    assert_eq!(next(&often, "2026-03-29T01:00:00Z"), "2026-03-29T01:15:00Z");
}

/// In Berlin, 02:00 to 03:00 occurs twice on 2026-10-25: what is due then runs once.
#[test]
fn time_that_occurs_twice_runs_once() {
    let nightly = berlin("30 2 * * *");
    assert_eq!(next(&nightly, "2026-10-24T12:00:00Z"), "2026-10-25T00:30:00Z");
    assert_eq!(next(&nightly, "2026-10-25T00:30:00Z"), "2026-10-26T01:30:00Z");
    assert_eq!(next(&nightly, "2026-10-25T01:10:00Z"), "2026-10-26T01:30:00Z");
    assert!(!nightly.is_slot(at("2026-10-25T01:30:00Z")));
}

/// With `*` as hours, turns follow elapsed time.
#[test]
fn hourly_expressions_ignore_changes_of_clocks() {
    for begin in ["2026-03-28T20:00:00Z", "2026-10-24T20:00:00Z"] {
        let quarter = berlin("*/30 * * * *");
        let mut slot = at(begin);
        for _ in 0..24 {
            let following = quarter.next_slot_after(slot).unwrap();
            assert_eq!(following - slot, HOUR / 2);
            slot = following;
        }
    }
}

#[test]
fn invalid_expressions_are_refused_with_the_field() {
    for (expression, message) in [
        ("0 25 * * *", "range 0..=23"),
        ("* * * *", "it has 4 fields"),
        ("* * * * * UTC", "it has 6 fields"),
        ("@daily", "it has 1 fields"),
        ("61 * * * *", "range 0..=59"),
        ("*/0 * * * *", "`*/0 * * * *` is invalid"),
        ("0 0 30 2 *", "matches no day in four years"),
        ("0 0 31 4,6 *", "matches no day in four years"),
    ] {
        let error = spec(json!({"cron": expression})).compile().unwrap_err().to_string();
        assert!(error.contains(message) && error.contains(expression), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
    let long = format!("0 {} * * *", ["1"; 200].join(","));
    assert!(spec(json!({"cron": long})).compile().is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any text is refused or gives turns in order that `last_slot_at` finds again.
    #[test]
    fn any_expression_is_refused_or_gives_turns(
        expression in "[0-9*,/LW#-]{1,5} [0-9*]{1,2} [0-9*,/LW-]{1,5} [0-9*/-]{1,4} [0-9*A-Z,/#-]{1,5}",
        from in 1_500_000_000_000_u64..2_000_000_000_000,
    ) {
        let spec = spec(json!({"cron": expression, "time_zone": "America/New_York"}));
        let Ok(schedule) = spec.compile() else { return Ok(()) };
        let Some(first) = schedule.next_slot_after(from) else { return Ok(()) };
        prop_assert!(first > from);
        prop_assert!(schedule.is_slot(first));
        if let Some(second) = schedule.next_slot_after(first) {
            prop_assert!(second > first);
            prop_assert_eq!(schedule.last_slot_at(second - 1), Some(first));
        }
    }
}
