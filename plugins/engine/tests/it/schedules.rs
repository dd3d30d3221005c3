//! Schedules allow the same times as Puppet 7.23, which produced the tables.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use muster_engine::types::schedule::ScheduleResourceType;
use serde_json::json;

use crate::support::{check, fake};

/// Saturday 16 March 2024, 01:30 UTC.
const START: i64 = 1_710_552_600;
/// Times of the check, in seconds after `START`.
const NOWS: [i64; 8] = [0, 1800, 14_400, 39_600, 72_001, 90_000, 1_296_000, 4_060_800];
/// Seconds between the previous check of the resource and this one; `None`: it was never checked.
const AGES: [Option<i64>; 8] = [
    None,
    Some(0),
    Some(1700),
    Some(10_800),
    Some(86_400),
    Some(518_400),
    Some(691_200),
    Some(3_456_000),
];

/// Per line a schedule, then for each time one digit per age: 1 if the schedule allows the resource.
const IN_UTC: &str = r#"
{"range": "2 - 4"}|00000000 11111111 00000000 00000000 00000000 11111111 00000000 00000000
{"range": "1:30 - 1:30"}|11111111 11111111 11111111 11111111 11111111 11111111 11111111 11111111
{"range": "22:00 - 04:00", "weekday": "Friday"}|11111111 11111111 00000000 00000000 00000000 00000000 00000000 00000000
{"range": "22 - 4:30:15", "weekday": ["Saturday", "0"]}|00000000 00000000 00000000 00000000 00000000 11111111 11111111 00000000
{"range": ["1-2", "5 - 7"]}|11111111 11111111 11111111 00000000 00000000 00000000 11111111 11111111
{"weekday": ["Mon", "2", "wednesday"]}|00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000
{"period": "hourly"}|10011111 10011111 10011111 10011111 10011111 10011111 10011111 10011111
{"period": "hourly", "repeat": 2}|10011111 10011111 10011111 10011111 10011111 10011111 10011111 10011111
{"period": "daily", "periodmatch": "number"}|10011111 10011111 10001111 10001111 10001111 10011111 10011111 10011111
{"period": "hourly", "periodmatch": "number"}|10010000 10110000 10010000 10010000 10010000 10010000 10010000 10010000
{"period": "weekly"}|10000011 10000011 10000011 10000011 10000011 10000011 10000011 10000011
{"period": "weekly", "periodmatch": "number"}|10000011 10000011 10000011 10000011 10000011 10011111 10011111 10000111
{"period": "monthly"}|10000001 10000001 10000001 10000001 10000001 10000001 10000001 10000001
{"period": "monthly", "periodmatch": "number"}|10000001 10000001 10000001 10000001 10000001 10000001 10000001 10000111
{"period": "never"}|00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000
{"range": "2 - 4", "period": "daily", "repeat": 3}|00000000 10001111 00000000 00000000 00000000 10001111 00000000 00000000
{}|11111111 11111111 11111111 11111111 11111111 11111111 11111111 11111111
"#;
/// The same table for Central European time; summer time begins between the times of the check.
const IN_BERLIN: &str = r#"
{"range": "2 - 4"}|11111111 11111111 00000000 00000000 00000000 11111111 11111111 11111111
{"range": "1:30 - 1:30"}|11111111 11111111 11111111 11111111 11111111 11111111 11111111 11111111
{"range": "22:00 - 04:00", "weekday": "Friday"}|11111111 11111111 00000000 00000000 00000000 00000000 00000000 00000000
{"range": "22 - 4:30:15", "weekday": ["Saturday", "0"]}|00000000 00000000 00000000 00000000 11111111 11111111 11111111 00000000
{"range": ["1-2", "5 - 7"]}|00000000 00000000 11111111 00000000 00000000 00000000 00000000 00000000
{"weekday": ["Mon", "2", "wednesday"]}|00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000
{"period": "hourly"}|10011111 10011111 10011111 10011111 10011111 10011111 10011111 10011111
{"period": "hourly", "repeat": 2}|10011111 10011111 10011111 10011111 10011111 10011111 10011111 10011111
{"period": "daily", "periodmatch": "number"}|10011111 10001111 10001111 10001111 10001111 10001111 10011111 10001111
{"period": "hourly", "periodmatch": "number"}|10010000 10110000 10010000 10010000 10010000 10010000 10011111 10010001
{"period": "weekly"}|10000011 10000011 10000011 10000011 10000011 10000011 10000011 10000011
{"period": "weekly", "periodmatch": "number"}|10000011 10000011 10000011 10000011 10000011 10001111 10011111 10000111
{"period": "monthly"}|10000001 10000001 10000001 10000001 10000001 10000001 10000001 10000001
{"period": "monthly", "periodmatch": "number"}|10000001 10000001 10000001 10000001 10000001 10000001 10000001 10000111
{"period": "never"}|00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000
{"range": "2 - 4", "period": "daily", "repeat": 3}|10001111 10001111 00000000 00000000 00000000 10001111 10001111 10001111
{}|11111111 11111111 11111111 11111111 11111111 11111111 11111111 11111111
"#;

#[test]
fn schedules_allow_the_same_times_as_puppet() {
    let (_, engine) = fake();
    let berlin = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
    for (table, zone) in [(IN_UTC, TimeZone::UTC), (IN_BERLIN, berlin)] {
        for line in table.lines().filter(|line| !line.is_empty()) {
            let (words, answers) = line.split_once('|').unwrap();
            let schedule = check(&engine, "schedule", "s", words.parse().unwrap()).unwrap();
            let found: Vec<String> = NOWS
                .iter()
                .map(|now| {
                    let now = START + now;
                    let at = |second| Timestamp::from_second(second).unwrap();
                    let digit = |age: &Option<i64>| {
                        let checked = age.map(|age| at(now - age));
                        let allowed =
                            ScheduleResourceType::allows_change(&schedule, checked, at(now), &zone);
                        if allowed.unwrap() { '1' } else { '0' }
                    };
                    AGES.iter().map(digit).collect()
                })
                .collect();
            assert_eq!(found.join(" "), answers, "{words} in {zone:?}");
        }
    }
}

#[test]
fn six_schedules_are_predeclared() {
    for name in ["puppet", "hourly", "daily", "weekly", "monthly", "never"] {
        let schedule = ScheduleResourceType::predeclared_schedule(name).unwrap();
        let now = Timestamp::from_second(START).unwrap();
        let allowed =
            ScheduleResourceType::allows_change(&schedule, None, now, &TimeZone::UTC).unwrap();
        assert_eq!(allowed, name != "never", "{name}");
    }
    assert_eq!(ScheduleResourceType::predeclared_schedule("fortnightly"), None);
}

#[test]
fn invalid_schedules_are_refused() {
    let (_, engine) = fake();
    for (words, expected) in [
        (json!({"range": "2"}), "must be a range of times"),
        (json!({"range": "2 - 25"}), "must be a range of times"),
        (json!({"range": "2:60 - 4"}), "must be a range of times"),
        (json!({"range": "-1 - 4"}), "must be a range of times"),
        (json!({"weekday": "Someday"}), "must be the name of a day"),
        (json!({"weekday": 7}), "must be the name of a day"),
        (json!({"repeat": 0}), "must be 1 or more"),
        (json!({"repeat": 2, "periodmatch": "number"}), "1 unless `periodmatch` is `distance`"),
        (json!({"period": "yearly"}), "must be one of hourly"),
    ] {
        let error = check(&engine, "schedule", "s", words).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}
