//! What a node accepts, and the ids of scheduled requests.

use muster_schedule::{SlotRefusal, slot_request_id};
use proptest::prelude::*;
use serde_json::json;
use uuid::Uuid;

use crate::fleet::{HOUR, MINUTE, MONDAY, SECOND, at, node, schedule};

#[test]
fn turn_of_an_interval_is_admitted_from_its_begin_for_two_intervals() {
    let every = schedule(json!({"every": 1800}));
    let slot = MONDAY + HOUR;
    for (now, expected) in [
        (slot - 31 * SECOND, false),
        (slot - 30 * SECOND, true),
        (slot, true),
        (slot + HOUR, true),
        (slot + HOUR + 1, false),
    ] {
        assert_eq!(every.admits(slot, now).is_ok(), expected, "{now}");
    }
    assert_eq!(every.admits(slot + 1, slot), Err(SlotRefusal::NotASlot { slot: slot + 1 }));
    let error = every.admits(slot, slot + HOUR + 1).unwrap_err().to_string();
    assert_eq!(
        error,
        "the schedule's turn of 2026-03-02T01:00:00.000Z ended at 2026-03-02T02:00:00.000Z; this node's clock shows 2026-03-02T02:00:00.001Z"
    );
}

#[test]
fn turn_of_a_cron_expression_is_admitted_for_spread_and_catch_up() {
    let cron = schedule(json!({"cron": "0 3 * * *", "spread": 600, "catch_up": 120}));
    let slot = at("2026-03-02T03:00:00Z");
    assert_eq!(cron.admits(slot, slot), Ok(()));
    assert_eq!(cron.admits(slot, slot + 13 * MINUTE), Ok(()), "10 + 2 + 1 of grace");
    assert!(matches!(cron.admits(slot, slot + 13 * MINUTE + 1), Err(SlotRefusal::TooLate { .. })));
    let other = slot + HOUR;
    assert_eq!(cron.admits(other, other), Err(SlotRefusal::NotASlot { slot: other }));
}

#[test]
fn nothing_is_admitted_outside_windows_and_in_blackouts() {
    let blackout = json!({"from": "2026-03-02T23:00:00Z", "until": "2026-03-02T23:30:00Z", "reason": "database move"});
    let fields = json!({"every": 1800, "windows": ["22:00-04:00"], "blackouts": [blackout]});
    let schedule = schedule(fields);
    let admits = |text| schedule.admits(at(text) / 1_800_000 * 1_800_000, at(text));
    assert_eq!(admits("2026-03-02T22:10:00Z"), Ok(()));
    assert_eq!(admits("2026-03-02T21:59:31Z"), Ok(()), "the scheduler's clock may be ahead");
    assert_eq!(
        admits("2026-03-02T12:00:00Z").unwrap_err().to_string(),
        "2026-03-02T12:00:00.000Z is outside the schedule's windows"
    );
    assert_eq!(
        admits("2026-03-02T23:10:00Z").unwrap_err().to_string(),
        "2026-03-02T23:10:00.000Z is in a blackout of the schedule: database move"
    );
}

#[test]
fn request_id_is_fixed_by_grant_node_and_slot() {
    let grant = Uuid::from_u128(7);
    let id = slot_request_id(grant, &node(1), MONDAY);
    // Two versions of the scheduler must not send two ids.
    assert_eq!(id.to_string(), "019cabd8-3800-7b69-b536-e4dff73fc4f5");
    assert_eq!(id.get_version_num(), 7);
    let (seconds, nanos) = id.get_timestamp().unwrap().to_unix();
    assert_eq!(seconds * 1000 + u64::from(nanos) / 1_000_000, MONDAY);
    assert_ne!(id, slot_request_id(Uuid::from_u128(8), &node(1), MONDAY));
    assert_ne!(id, slot_request_id(grant, &node(2), MONDAY));
    assert_ne!(id, slot_request_id(grant, &node(1), MONDAY + 60_000));
}

proptest! {
    /// Whatever the times, an answer and no panic.
    #[test]
    fn any_times_are_answered(slot: u64, now: u64) {
        let every = schedule(json!({"every": 1800, "windows": ["mon 01:00-02:00"]}));
        let cron = schedule(json!({"cron": "0 3 * * *", "time_zone": "Europe/Berlin"}));
        let _ = every.admits(slot, now);
        let _ = cron.admits(slot, now);
        prop_assert!(every.admits(slot, slot.saturating_add(3_600_001)).is_err());
    }
}
