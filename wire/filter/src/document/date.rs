//! Dates: `ISODate("2026-11-26T08:00:00Z")`, and facts that are texts of the same form, since facts are JSON and have no dates.

use std::str::FromStr;

use jiff::civil::{Date, DateTime, Time, datetime};

use crate::error::{FilterFault, Result};

const EPOCH: DateTime = datetime(1970, 1, 1, 0, 0, 0, 0);

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
    let (date, rest) = text.split_at_checked(10)?;
    let (time, zone_minutes) = match rest {
        "" => (Time::midnight(), 0),
        rest => {
            let (time, zone_minutes) = split_zone(rest.strip_prefix(['T', ' '])?)?;
            (parse_time(time)?, zone_minutes)
        }
    };
    let mut parts = date.split('-');
    let year = parse_digits(parts.next()?, 4)?;
    let (month, day) = (parse_digits(parts.next()?, 2)?, parse_digits(parts.next()?, 2)?);
    let date = Date::new(year, month, day).ok().filter(|_| parts.next().is_none())?;
    let since_epoch = EPOCH.duration_until(date.to_datetime(time)).as_millis();
    Some(i64::try_from(since_epoch).ok()? - zone_minutes * 60_000)
}

/// A time of day, to the millisecond.
fn parse_time(text: &str) -> Option<Time> {
    let (clock, fraction) = text.split_once('.').map_or((text, None), |(c, f)| (c, Some(f)));
    let mut parts = clock.split(':');
    let (hours, minutes) = (parse_digits(parts.next()?, 2)?, parse_digits(parts.next()?, 2)?);
    let seconds = match parts.next() {
        Some(seconds) => parse_digits(seconds, 2)?,
        None if fraction.is_some() => return None,
        None => 0,
    };
    let millis: i32 = match fraction {
        Some(digits) if (1..=9).contains(&digits.len()) => {
            parse_digits::<u32>(digits, digits.len())?;
            parse_digits(format!("{digits:0<3}").get(..3)?, 3)?
        }
        Some(_) => return None,
        None => 0,
    };
    let time = Time::new(hours, minutes, seconds, millis * 1_000_000).ok()?;
    parts.next().is_none().then_some(time)
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
    let hours = parse_digits::<i64>(hours, 2).filter(|hours| *hours < 24)?;
    let minutes = parse_digits::<i64>(minutes, 2).filter(|minutes| *minutes < 60)?;
    Some((clock, sign * (hours * 60 + minutes)))
}

fn parse_digits<T: FromStr>(text: &str, length: usize) -> Option<T> {
    let is_number = text.len() == length && text.bytes().all(|b| b.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
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
