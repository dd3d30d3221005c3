//! Intervals of a day or more: their periods in a time zone, and windows over the border of two periods.

use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::{Date, date};
use jiff::tz::TimeZone;
use jiff::{SpanRound, ToSpan as _, Unit};
use muster_schedule::{SeatList, SimulationInput, simulate_schedule};
use muster_wire::Millis;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::fleet::{Fleet, HOUR, MINUTE, MONDAY, at, members, schedule};

const DAY: Millis = 24 * HOUR;
/// Clocks of Cairo change at midnight, those of Lord Howe by half an hour, those of Kolkata never.
const ZONES: [&str; 5] =
    ["Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Africa/Cairo"];
const WEEKDAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// The simulated starts of each seat, in order.
fn starts_by_seat(
    fields: &Value,
    seats: usize,
    from: Millis,
    until: Millis,
) -> BTreeMap<u32, Vec<Millis>> {
    let mut list = SeatList::default();
    list.assign(&members(0..seats), from, 0);
    let simulation = simulate_schedule(&SimulationInput {
        schedule: &schedule(fields.clone()),
        seats: &list,
        duration: &|_| 0,
        from,
        until,
    });
    assert_eq!((simulation.missed, simulation.until), (0, until), "{fields}");
    let mut starts: BTreeMap<u32, Vec<Millis>> = BTreeMap::new();
    for run in simulation.runs {
        starts.entry(run.seat).or_default().push(run.at);
    }
    starts
}

/// Midnight of a day in a zone, or the first instant of a day without one.
fn midnight(zone: &TimeZone, day: Date) -> Millis {
    day.to_zoned(zone.clone()).unwrap().timestamp().as_millisecond().try_into().unwrap()
}

fn date_of(zone: &TimeZone, instant: Millis) -> Date {
    let timestamp = jiff::Timestamp::from_millisecond(instant.try_into().unwrap()).unwrap();
    timestamp.to_zoned(zone.clone()).date()
}

fn days_since_1970(day: Date) -> i64 {
    let days = SpanRound::new().largest(Unit::Day).days_are_24_hours();
    i64::from(date(1970, 1, 1).until(day).unwrap().round(days).unwrap().get_days())
}

/// The example of the report: the node on the first seat started at 22:00 and again at 00:00.
#[test]
fn window_that_passes_midnight_has_one_start() {
    for zone in [None, Some("Europe/Berlin"), Some("Pacific/Auckland")] {
        let fields = json!({"every": 86_400, "windows": ["mon 22:00-04:00"], "time_zone": zone});
        let starts = starts_by_seat(&fields, 8, MONDAY - DAY, MONDAY + 6 * DAY);
        assert_eq!(starts.len(), 8, "{zone:?}");
        assert!(starts.values().all(|starts| starts.len() == 1), "{zone:?}: {starts:?}");
    }
}

/// Two windows that meet at midnight are one.
#[test]
fn windows_that_touch_are_one_window() {
    let fields = json!({"every": 86_400, "windows": ["mon 20:00-24:00", "tue 00:00-04:00"]});
    let starts = starts_by_seat(&fields, 8, MONDAY, MONDAY + 7 * DAY);
    assert!(starts.values().all(|starts| starts.len() == 1), "{starts:?}");
    // Three days without a pause are open in each day: no window is longer than a period.
    let weekend = json!({"every": 86_400, "windows": ["fri 18:00-24:00", "sat,sun 00:00-24:00"]});
    let starts = starts_by_seat(&weekend, 8, MONDAY, MONDAY + 7 * DAY);
    assert!(starts.values().all(|starts| starts.len() == 3), "{starts:?}");
}

#[test]
fn interval_of_a_day_begins_at_midnight_in_its_zone() {
    let daily = schedule(json!({"every": 86_400, "time_zone": "Europe/Berlin"}));
    for (slot, next) in [
        ("2026-03-27T23:00:00Z", "2026-03-28T23:00:00Z"),
        // 29 March has 23 hours, 25 October has 25.
        ("2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"),
        ("2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"),
    ] {
        let (slot, next) = (at(slot), at(next));
        assert!(daily.is_slot(slot) && daily.is_slot(next));
        assert_eq!(daily.next_slot_after(slot), Some(next));
        assert_eq!(daily.last_slot_at(next - 1), Some(slot));
    }
    assert!(!daily.is_slot(at("2026-03-27T00:00:00Z")));
    assert_eq!(daily.describe_timing(), "every 1 d 0 h (Europe/Berlin)");
    // Below a day the interval is counted in elapsed time.
    let hours = schedule(json!({"every": 43_200, "time_zone": "Europe/Berlin"}));
    assert!(hours.is_slot(at("2026-03-27T00:00:00Z")));
    assert_eq!(hours.describe_timing(), "every 12 h 00 m");
}

/// Samoa had no 30 December 2011. Its day has no turn, and no day has two.
#[test]
fn day_that_a_zone_skips_has_no_turn() {
    let daily = schedule(json!({"every": 86_400, "time_zone": "Pacific/Apia"}));
    let mut slot = at("2011-12-28T10:00:00Z");
    let mut slots = Vec::new();
    for _ in 0..3 {
        slot = daily.next_slot_after(slot).unwrap();
        slots.push(slot);
    }
    assert_eq!(
        slots,
        ["2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"].map(at)
    );
}

/// A node accepts a turn in the whole window, also after midnight.
#[test]
fn node_accepts_the_turn_until_the_end_of_its_window() {
    let fields =
        json!({"every": 86_400, "windows": ["mon 22:00-04:00"], "time_zone": "Europe/Berlin"});
    let daily = schedule(fields);
    let monday = at("2026-03-01T23:00:00Z");
    assert_eq!(daily.admits(monday, at("2026-03-03T02:59:00Z")), Ok(()));
    assert!(daily.admits(monday, at("2026-03-03T03:01:00Z")).is_err(), "the window is over");
    assert_eq!(daily.last_admission(monday), at("2026-03-03T23:00:00Z"));
}

/// After an outage over a whole window, the next window has one start of each node: its own.
#[test]
fn late_start_is_not_made_up_for_in_the_next_window() {
    let fields = json!({"every": 86_400, "windows": ["22:00-04:00"]});
    let mut fleet = Fleet::new(schedule(fields), 20, MONDAY);
    fleet.run_until(MONDAY + 23 * HOUR);
    fleet.outage_until(MONDAY + 30 * HOUR);
    fleet.run_until(MONDAY + 3 * DAY);
    let next_window = MONDAY + 46 * HOUR..MONDAY + 52 * HOUR;
    for number in 0..20 {
        let node = crate::fleet::node(number);
        let of_node = fleet.starts.iter().filter(|start| start.node == node);
        let count = of_node.filter(|start| next_window.contains(&start.at)).count();
        assert_eq!(count, 1, "{node}");
    }
    assert!(!fleet.skips.is_empty(), "what was missed is reported");
}

/// A window: the days on which it begins, its begin as a minute of the day, and its length, which is less than a day.
#[derive(Debug, Clone)]
struct AnyWindow {
    days: BTreeSet<usize>,
    from: u64,
    minutes: u64,
}

impl AnyWindow {
    fn text(&self) -> String {
        let time = |minute: u64| format!("{:02}:{:02}", minute / 60 % 24, minute % 60);
        let days = WEEKDAYS.iter().enumerate().filter(|(number, _)| self.days.contains(number));
        let days: Vec<&str> = days.map(|(_, name)| *name).collect();
        format!("{} {}-{}", days.join(","), time(self.from), time(self.from + self.minutes))
    }

    fn begins_on(&self, day: Date) -> bool {
        self.days.contains(&usize::try_from(day.weekday().to_monday_zero_offset()).unwrap())
    }
}

fn any_window() -> impl Strategy<Value = AnyWindow> {
    // Two hours at least, so that no change of clocks closes it.
    let days = prop::collection::btree_set(0_usize..7, 1..=7);
    (days, 0_u64..1440, 120_u64..1380).prop_map(|(days, from, minutes)| AnyWindow {
        days,
        from,
        minutes,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// A year in five zones: each node starts once in each period of the interval that has a window, in a window that began in that period.
    #[test]
    fn each_node_starts_once_in_each_period_of_a_year(
        zone in prop::sample::select(&ZONES[..]),
        days in prop::sample::select(vec![1_i64, 2, 3, 7, 10, 31]),
        window in prop::option::of(any_window()),
    ) {
        let windows: Vec<String> = window.iter().map(AnyWindow::text).collect();
        let fields = json!({"every": days * 86_400, "windows": windows, "time_zone": zone});
        let zone = TimeZone::get(zone).unwrap();
        // Whole periods: 2026 without its parts of periods.
        let first = date(2026, 1, 1);
        let first = first + (days - 1 - (days_since_1970(first) + days - 1) % days).days();
        let count = 365 / days;
        let end = first + (count * days).days();
        let starts = starts_by_seat(&fields, 5, midnight(&zone, first), midnight(&zone, end) + DAY);
        let expected: BTreeSet<i64> = first
            .series(1.day())
            .take_while(|day| *day < end)
            .filter(|day| window.as_ref().is_none_or(|window| window.begins_on(*day)))
            .map(|day| days_since_1970(day) / days)
            .collect();
        for (seat, starts) in (0..5).map(|seat| (seat, starts.get(&seat).cloned().unwrap_or_default())) {
            let mut periods = Vec::new();
            for start in &starts {
                let today = date_of(&zone, *start);
                let Some(window) = &window else {
                    periods.push(days_since_1970(today) / days);
                    continue;
                };
                let minute = (*start - midnight(&zone, today)) / MINUTE;
                // The day on which its window began: today, or yesterday if that window is still open. Clocks change by an hour at most.
                let yesterday = today - 1.day();
                let is_left_over = window.from + window.minutes > 1440
                    && minute <= window.from + window.minutes - 1440 + 60
                    && window.begins_on(yesterday)
                    && (minute + 60 < window.from || !window.begins_on(today));
                let begun = if is_left_over { yesterday } else { today };
                prop_assert!(window.begins_on(begun), "{fields}: seat {seat} at {start}");
                periods.push(days_since_1970(begun) / days);
            }
            periods.retain(|period| *period < days_since_1970(end) / days);
            let once: BTreeSet<i64> = periods.iter().copied().collect();
            prop_assert_eq!(once.len(), periods.len(), "{}: seat {} twice in a period", fields, seat);
            // The part of a window that began before the year is no whole period.
            let once: BTreeSet<i64> = once.into_iter().filter(|period| *period >= days_since_1970(first) / days).collect();
            prop_assert_eq!(&once, &expected, "{}: seat {}", fields, seat);
        }
    }

    /// The same of the planner, with an outage and a limit: no node starts twice in a period, nor twice in one window.
    #[test]
    fn planner_starts_no_node_twice_in_a_period(
        zone in prop::sample::select(&ZONES[..]),
        from in 0_u64..1440,
        minutes in 120_u64..1380,
        outage in (0_u64..96, 0_u64..48),
        limit in 1_usize..4,
    ) {
        let window = AnyWindow { days: (0..7).collect(), from, minutes };
        let fields = json!({"every": 86_400, "windows": [window.text()], "time_zone": zone, "limit": limit});
        // A week with a change of clocks in Berlin and Lord Howe nearby.
        let begin = at("2026-03-26T00:00:00Z");
        let mut fleet = Fleet::new(schedule(fields), 6, begin);
        fleet.duration = 7 * MINUTE;
        fleet.run_until(begin + outage.0 * HOUR);
        fleet.outage_until(begin + (outage.0 + outage.1) * HOUR);
        fleet.run_until(begin + 8 * DAY);
        for number in 0..6 {
            let node = crate::fleet::node(number);
            let starts: Vec<_> = fleet.starts.iter().filter(|start| start.node == node).collect();
            for pair in starts.windows(2) {
                prop_assert!(pair[0].slot < pair[1].slot);
                // Between two starts there is a time outside the window.
                let mut between = (pair[0].at..pair[1].at).step_by(usize::try_from(MINUTE).unwrap());
                prop_assert!(between.any(|instant| !fleet.schedule.is_open(instant)), "{pair:?}");
            }
        }
    }
}
