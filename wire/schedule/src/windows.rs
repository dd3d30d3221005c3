//! Weekly maintenance windows in a time zone: `mon-fri 22:00-04:00`.

use jiff::ToSpan as _;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use muster_wire::Millis;

use crate::error::ScheduleError;
use crate::local_time::{first_instant, timestamp};
use crate::spec::MAX_WINDOW_BYTES;

const DAY_NAMES: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
const DAY_MINUTES: u16 = 24 * 60;

/// A window: the days on which it begins, and its local times. One that ends at or before its begin ends on the next day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WeeklyWindow {
    days: [bool; 7],
    /// Minute of the day.
    from: u16,
    /// Minute of the day; 1440 is the end of the day.
    until: u16,
}

impl WeeklyWindow {
    /// Parses `mon-fri 22:00-04:00`, `sat,sun 00:00-24:00`, or only times for each day. A range of days may cross the end of the week.
    pub(crate) fn parse(text: &str) -> Result<Self, ScheduleError> {
        let invalid = |problem| ScheduleError::Window {
            window: text.chars().take(MAX_WINDOW_BYTES).collect(),
            problem,
        };
        if text.len() > MAX_WINDOW_BYTES {
            return Err(invalid("it is too long"));
        }
        let lower = text.to_ascii_lowercase();
        let words: Vec<&str> = lower.split_ascii_whitespace().collect();
        let (days, times) = match *words.as_slice() {
            [times] => ([true; 7], times),
            [days, times] => (
                parse_days(days).ok_or_else(|| invalid("days are mon tue wed thu fri sat sun"))?,
                times,
            ),
            _ => return Err(invalid("it has days and times, separated by a space")),
        };
        let (from, until) = times
            .split_once('-')
            .and_then(|(from, until)| Some((parse_minute(from)?, parse_minute(until)?)))
            .ok_or_else(|| invalid("times are HH:MM-HH:MM, from 00:00 to 24:00"))?;
        if from == DAY_MINUTES {
            return Err(invalid("24:00 can only be its end"));
        }
        if from == until {
            return Err(invalid("it begins and ends at the same time; a whole day is 00:00-24:00"));
        }
        Ok(Self { days, from, until })
    }

    /// The instants of this window if it begins on that day.
    fn on_day(&self, day: Date, zone: &TimeZone) -> Option<(Millis, Millis)> {
        let weekday = usize::try_from(day.weekday().to_monday_zero_offset()).ok()?;
        if !self.days.get(weekday).copied().unwrap_or(false) {
            return None;
        }
        let is_overnight = self.until < self.from;
        let end_day = if is_overnight { day.saturating_add(1.day()) } else { day };
        let from = first_instant(zone, local_time(day, self.from));
        let until = first_instant(zone, local_time(end_day, self.until));
        (from < until).then_some((from, until))
    }

    /// Adds the window's instants that may touch the range.
    pub(crate) fn collect(
        &self,
        zone: &TimeZone,
        from: Millis,
        until: Millis,
        found: &mut Vec<(Millis, Millis)>,
    ) {
        let last = zone.to_datetime(timestamp(until)).date();
        // A window that began the day before may still be open.
        let mut day = zone.to_datetime(timestamp(from)).date().saturating_sub(1.day());
        while day <= last {
            found.extend(self.on_day(day, zone));
            let next = day.saturating_add(1.day());
            if next == day {
                break;
            }
            day = next;
        }
    }
}

fn local_time(day: Date, minute: u16) -> DateTime {
    if minute == DAY_MINUTES {
        return day.saturating_add(1.day()).to_datetime(Time::midnight());
    }
    let part = |number: u16| i8::try_from(number).unwrap_or(0);
    day.at(part(minute / 60), part(minute % 60), 0, 0)
}

/// `mon`, `mon-fri`, `fri-mon`, `sat,sun`.
fn parse_days(text: &str) -> Option<[bool; 7]> {
    let number = |name: &str| DAY_NAMES.iter().position(|day| *day == name);
    let mut days = [false; 7];
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        let length = (last + 7 - first) % 7;
        for day in 0..=length {
            if let Some(day) = days.get_mut((first + day) % 7) {
                *day = true;
            }
        }
    }
    Some(days)
}

/// `HH:MM` as the minute of the day.
fn parse_minute(text: &str) -> Option<u16> {
    let (hour, minute) = text.split_once(':')?;
    let number = |text: &str| {
        let is_number = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse::<u16>().ok()).flatten()
    };
    let (hour, minute) = (number(hour)?, number(minute)?);
    let is_valid = minute < 60 && (hour < 24 || (hour == 24 && minute == 0));
    is_valid.then_some(hour * 60 + minute)
}
