//! Windows and blackouts, with changes of clocks.

use proptest::prelude::*;
use serde_json::json;

use crate::fleet::{HOUR, MINUTE, MONDAY, at, schedule, spec};

fn is_open(window: &str, instant: &str) -> bool {
    schedule(json!({"every": 60, "windows": [window], "time_zone": "Europe/Berlin"}))
        .is_open(at(instant))
}

#[test]
fn windows_are_local_times_on_the_days_on_which_they_begin() {
    for (window, instant, expected) in [
        // Berlin is one hour ahead of UTC in winter.
        ("mon-fri 22:00-04:00", "2026-03-02T20:59:59.999Z", false),
        ("mon-fri 22:00-04:00", "2026-03-02T21:00:00Z", true),
        ("mon-fri 22:00-04:00", "2026-03-03T02:59:59.999Z", true),
        ("mon-fri 22:00-04:00", "2026-03-03T03:00:00Z", false),
        // Saturday morning belongs to Friday; Monday morning to Sunday.
        ("mon-fri 22:00-04:00", "2026-03-07T02:00:00Z", true),
        ("mon-fri 22:00-04:00", "2026-03-02T02:00:00Z", false),
        ("sat,sun 00:00-24:00", "2026-03-07T12:00:00Z", true),
        ("sat,sun 00:00-24:00", "2026-03-08T22:59:59Z", true),
        ("sat,sun 00:00-24:00", "2026-03-08T23:00:00Z", false),
        ("fri-mon 09:00-10:00", "2026-03-02T08:30:00Z", true),
        ("fri-mon 09:00-10:00", "2026-03-03T08:30:00Z", false),
        ("09:00-10:00", "2026-03-03T08:30:00Z", true),
        // 2026-03-29 has no 02:00 to 03:00: the window ends at the end of the gap.
        ("01:00-02:30", "2026-03-29T00:59:00Z", true),
        ("01:00-02:30", "2026-03-29T01:00:00Z", false),
        ("02:00-02:30", "2026-03-29T01:00:00Z", false),
        // Summer time: two hours.
        ("22:00-04:00", "2026-07-01T20:00:00Z", true),
        ("22:00-04:00", "2026-07-01T19:59:00Z", false),
    ] {
        assert_eq!(is_open(window, instant), expected, "{window} at {instant}");
    }
}

#[test]
fn invalid_windows_are_refused_with_what_to_write() {
    for (window, message) in [
        ("mon-fri", "times are HH:MM-HH:MM"),
        ("mo 22:00-04:00", "days are mon tue wed thu fri sat sun"),
        ("mon 22:00-22:00", "a whole day is 00:00-24:00"),
        ("mon 24:00-04:00", "24:00 can only be its end"),
        ("mon 22:60-04:00", "times are HH:MM-HH:MM"),
        ("mon 9:00-10:00", "times are HH:MM-HH:MM"),
        ("mon tue 22:00-04:00", "separated by a space"),
        ("", "separated by a space"),
    ] {
        let error =
            spec(json!({"every": 60, "windows": [window]})).compile().unwrap_err().to_string();
        assert!(error.contains(message), "{window}: {error}");
        assert!(error.ends_with("a window is written as `mon-fri 22:00-04:00`"), "{error}");
    }
}

#[test]
fn next_open_time_crosses_blackouts() {
    let blackout = json!({"from": "2026-03-02T00:00:00Z", "until": "2026-03-20T00:00:00+01:00", "reason": "freeze"});
    let schedule =
        schedule(json!({"every": 60, "windows": ["mon 08:00-09:00"], "blackouts": [blackout]}));
    assert_eq!(schedule.next_open(MONDAY), Some(at("2026-03-23T08:00:00Z")));
    let forever = json!({"from": "2026-03-02T00:00:00Z", "until": "2036-03-02T00:00:00Z"});
    let closed = crate::fleet::schedule(json!({"every": 60, "blackouts": [forever]}));
    assert_eq!(closed.next_open(MONDAY), None);
    assert!(closed.next_turn_after(MONDAY).is_none());
}

proptest! {
    /// The same answer by the definition: the local time of day lies between the two.
    #[test]
    fn open_is_as_defined(
        from in 0_u64..1440,
        length in 1_u64..1440,
        day in 0_u64..300,
        minute in 0_u64..1440,
    ) {
        let until = (from + length) % 1440;
        let text = |minute: u64| format!("{:02}:{:02}", minute / 60, minute % 60);
        let window = format!("{}-{}", text(from), text(until));
        let schedule = schedule(json!({"every": 60, "windows": [window]}));
        let instant = MONDAY + day * 24 * HOUR + minute * MINUTE;
        let expected = (minute + 1440 - from) % 1440 < length;
        prop_assert_eq!(schedule.is_open(instant), expected);
        let next = schedule.next_open(instant).unwrap();
        prop_assert!(schedule.is_open(next));
        prop_assert_eq!(next == instant, expected);
    }
}
