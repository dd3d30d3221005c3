//! Converts between days since 1 January 1970 and `YYYY-MM-DD`, in the proleptic Gregorian calendar. No time zones: shadow(5) has none.

use std::time::SystemTime;

use jiff::civil::{Date, date};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};

const EPOCH: Date = date(1970, 1, 1);

/// The UTC day of a time. 0 for a time after the year 9999.
pub fn epoch_day(time: SystemTime) -> i64 {
    let day = Timestamp::try_from(time).map(|time| time.to_zoned(TimeZone::UTC).date());
    day.map_or(0, days_since_epoch)
}

/// `1970-01-02` is 1. `None` for an invalid date such as `2023-02-29` or `2023-2-1`.
pub fn parse_day(text: &str) -> Option<i64> {
    let days = days_since_epoch(Date::strptime("%Y-%m-%d", text).ok()?);
    // Refuses other spellings of the date, such as `2023-2-1`.
    (render_day(days).as_deref() == Some(text)).then_some(days)
}

/// 1 is `1970-01-02`. `None` outside the years 0 to 9999, because the year has four digits.
pub fn render_day(days: i64) -> Option<String> {
    let span = 0.days().try_days(days).ok()?;
    let day = EPOCH.checked_add(span).ok()?;
    (day.year() >= 0).then(|| day.strftime("%Y-%m-%d").to_string())
}

fn days_since_epoch(day: Date) -> i64 {
    EPOCH.duration_until(day).as_hours() / 24
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parses_and_renders_known_days() {
        for (text, days) in
            [("1970-01-01", 0), ("2000-02-29", 11_016), ("2038-01-19", 24_855), ("1969-12-31", -1)]
        {
            assert_eq!(parse_day(text), Some(days), "{text}");
            assert_eq!(render_day(days).as_deref(), Some(text));
        }
        for text in [
            "2023-02-29",
            "2023-13-01",
            "2023-00-10",
            "2023-1-1",
            "20230101",
            "+023-01-01",
            "",
            "é",
        ] {
            assert_eq!(parse_day(text), None, "{text}");
        }
        assert_eq!(render_day(i64::MIN), None);
    }

    proptest! {
        #[test]
        fn every_day_survives_a_round_trip(days in -700_000_i64..2_900_000) {
            let text = render_day(days).unwrap();
            prop_assert_eq!(parse_day(&text), Some(days));
        }

        #[test]
        fn parsing_never_panics(text in "\\PC{0,12}") {
            let _ = parse_day(&text);
        }
    }
}
