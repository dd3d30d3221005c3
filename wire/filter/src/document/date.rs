//! Dates: `ISODate("2026-11-26T08:00:00Z")`, and facts that are texts of the same form, since facts are JSON and have no dates.

use crate::error::{FilterFault, Result};

/// A point in time as written, and in milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct QueryDate {
    pub(super) text: String,
    pub(super) millis: i64,
}

impl QueryDate {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let millis = parse_millis(text).ok_or_else(|| {
            FilterFault::new(0, "a date such as 2026-11-26 or 2026-11-26T08:00:00Z")
        })?;
        Ok(Self { text: text.to_owned(), millis })
    }
}

/// Parses `YYYY-MM-DD` or `YYYY-MM-DDTHH:MM[:SS[.fraction]]`, then nothing, `Z` or `±HH:MM`. Without a zone, the time is UTC.
pub fn parse_millis(text: &str) -> Option<i64> {
    let (date, time) = match text.split_at_checked(10)? {
        (date, "") => (date, None),
        (date, rest) => (date, Some(rest.strip_prefix(['T', ' '])?)),
    };
    let mut parts = date.split('-');
    let year = parse_digits(parts.next()?, 4)?;
    let month = parse_digits(parts.next()?, 2).filter(|month| (1..=12).contains(month))?;
    let day = parse_digits(parts.next()?, 2)?;
    if parts.next().is_some() || !(1..=days_of_month(year, month)).contains(&day) {
        return None;
    }
    let midnight = days_since_1970(year, month, day) * 86_400_000;
    Some(midnight + time.map_or(Some(0), parse_time)?)
}

/// The milliseconds of a time with an optional zone, relative to midnight UTC.
fn parse_time(text: &str) -> Option<i64> {
    let (clock, zone_minutes) = split_zone(text)?;
    let (clock, fraction) = clock.split_once('.').map_or((clock, None), |(c, f)| (c, Some(f)));
    let mut parts = clock.split(':');
    let hours = parse_digits(parts.next()?, 2).filter(|hours| *hours < 24)?;
    let minutes = parse_digits(parts.next()?, 2).filter(|minutes| *minutes < 60)?;
    let seconds = match parts.next() {
        Some(seconds) => parse_digits(seconds, 2).filter(|seconds| *seconds < 60)?,
        None if fraction.is_some() => return None,
        None => 0,
    };
    let millis = match fraction {
        Some(digits) if (1..=9).contains(&digits.len()) => {
            parse_digits(digits, digits.len())?;
            parse_digits(format!("{digits:0<3}").get(..3)?, 3)?
        }
        Some(_) => return None,
        None => 0,
    };
    let minutes = hours * 60 + minutes - zone_minutes;
    parts.next().is_none().then_some((minutes * 60 + seconds) * 1000 + millis)
}

/// The time without its zone, and the zone's distance from UTC in minutes.
fn split_zone(text: &str) -> Option<(&str, i64)> {
    if let Some(clock) = text.strip_suffix('Z') {
        return Some((clock, 0));
    }
    let Some(at) = text.find(['+', '-']) else { return Some((text, 0)) };
    let (clock, zone) = text.split_at_checked(at)?;
    let sign = if zone.starts_with('-') { -1 } else { 1 };
    let (hours, minutes) = zone.get(1..)?.split_once(':')?;
    let hours = parse_digits(hours, 2).filter(|hours| *hours < 24)?;
    let minutes = parse_digits(minutes, 2).filter(|minutes| *minutes < 60)?;
    Some((clock, sign * (hours * 60 + minutes)))
}

fn parse_digits(text: &str, length: usize) -> Option<i64> {
    let is_number = text.len() == length && text.bytes().all(|b| b.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

fn days_of_month(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days since 1970-01-01 in the Gregorian calendar. Years begin in March here, so that the leap day is the last day of a year.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::parse_millis;

    #[test]
    fn dates_are_points_in_time() {
        for (text, millis) in [
            ("1970-01-01", 0),
            ("1970-01-01T00:00:00.5Z", 500),
            ("1970-01-01T01:00:00+01:00", 0),
            ("1969-12-31T23:00-01:00", 0),
            ("2000-02-29T12:34:56Z", 951_827_696_000),
            ("2026-11-26 08:00:00.123456789", 1_795_680_000_123),
            ("0000-03-01", -62_162_035_200_000),
        ] {
            assert_eq!(parse_millis(text), Some(millis), "{text}");
        }
    }

    #[test]
    fn other_texts_are_no_dates() {
        for text in [
            "",
            "2026",
            "2026-13-01",
            "2026-02-29",
            "2026-1-01",
            "2026-01-01T",
            "2026-01-01T24:00",
            "2026-01-01T10",
            "2026-01-01T10:00:60Z",
            "2026-01-01T10:00.5Z",
            "2026-01-01T10:00:00.Z",
            "2026-01-01T10:00:00+0100",
            "2026-01-01T10:00:00é",
            "2026-01-01x10:00",
            "٢٠٢٦-01-01",
            "+026-01-01",
            "2026-01-01T1é:00",
        ] {
            assert_eq!(parse_millis(text), None, "{text}");
        }
    }
}
