//! Converts between days since 1 January 1970 and `YYYY-MM-DD`, in the proleptic Gregorian calendar. No time zones: shadow(5) has none.

use std::time::{SystemTime, UNIX_EPOCH};

const SECS_PER_DAY: u64 = 86_400;
/// Number of days in 400 years.
const DAYS_PER_ERA: i64 = 146_097;

/// The UTC day of a time.
pub fn epoch_day(time: SystemTime) -> i64 {
    let seconds = time
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    i64::try_from(seconds / SECS_PER_DAY).unwrap_or(i64::MAX)
}

/// `1970-01-02` is 1. `None` for an invalid date such as `2023-02-29` or `2023-2-1`.
pub fn parse_day(text: &str) -> Option<i64> {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts.as_slice() else {
        return None;
    };
    let number = |text: &str, digits: usize| {
        let plain = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| text.parse::<i64>().ok()).flatten()
    };
    let (year, month, day) = (number(year, 4)?, number(month, 2)?, number(day, 2)?);
    let days = days_from_civil(year, month, day);
    // A date that does not exist renders as a different date, or not at all.
    (render_day(days).as_deref() == Some(text)).then_some(days)
}

/// 1 is `1970-01-02`. `None` outside the years 0 to 9999, because the year has four digits.
pub fn render_day(days: i64) -> Option<String> {
    // Prevents overflow in the arithmetic below.
    if days.unsigned_abs() > 10_000 * 366 {
        return None;
    }
    let shifted = days + 719_468;
    let (era, day_of_era) = (
        shifted.div_euclid(DAYS_PER_ERA),
        shifted.rem_euclid(DAYS_PER_ERA),
    );
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (0..=9999)
        .contains(&year)
        .then(|| format!("{year:04}-{month:02}-{day:02}"))
}

/// Years start in March here, so the leap day is the last day of a year.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let march_month = (month + 9) % 12;
    let day_of_year = (153 * march_month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * DAYS_PER_ERA + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_days() {
        for (text, days) in [
            ("1970-01-01", 0),
            ("2000-02-29", 11_016),
            ("2038-01-19", 24_855),
            ("1969-12-31", -1),
        ] {
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
        fn every_day_comes_back(days in -700_000_i64..2_900_000) {
            let text = render_day(days).unwrap();
            prop_assert_eq!(parse_day(&text), Some(days));
        }

        #[test]
        fn any_text_is_judged(text in "\\PC{0,12}") {
            let _ = parse_day(&text);
        }
    }
}
