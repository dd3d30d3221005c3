//! The times of a cron expression in a time zone.
//!
//! An expression with fixed hours is evaluated on local time, as Debian's cron does: a time that a change of clocks skips is moved to the end of the gap, and a time that
//! occurs twice counts once. An expression whose hours are `*` runs on elapsed time, so it neither stops nor repeats when clocks change.

use cronexpr::{Crontab, FallbackTimezoneOption, ParseOptions};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use muster_wire::Millis;

use crate::error::ScheduleError;
use crate::local_time::{first_instant, timestamp, timestamp_millis};
use crate::spec::MAX_CRON_BYTES;

/// Most local times that are examined for one answer. The longest repeated time is one day, where a zone crossed the date line.
const MAX_EXAMINED_TIMES: usize = 1500;
/// A time from which each valid expression has an occurrence within four years: 2024-01-01.
const REFERENCE_MILLIS: Millis = 1_704_067_200_000;
const MINUTE_MILLIS: Millis = 60_000;
/// How far back earlier occurrences are searched, in minutes: an hour, a day, a month, a year, and the four years that the search covers.
const LOOK_BACK_MINUTES: [u64; 5] = [60, 1440, 44_640, 527_040, 2_108_160];

/// A valid expression with its time zone.
#[derive(Debug, Clone)]
pub(crate) struct CronTimes {
    crontab: Crontab,
    zone: TimeZone,
    /// Whether `crontab` is evaluated on local times instead of instants.
    is_local: bool,
}

impl CronTimes {
    pub(crate) fn parse(expression: &str, zone: &TimeZone) -> Result<Self, ScheduleError> {
        let fields: Vec<&str> = expression.split_ascii_whitespace().collect();
        let invalid = |problem: String| ScheduleError::Cron {
            expression: expression.chars().take(MAX_CRON_BYTES).collect(),
            problem,
        };
        if expression.len() > MAX_CRON_BYTES {
            return Err(invalid(format!("it has more than {MAX_CRON_BYTES} bytes")));
        }
        // A sixth field would be a time zone.
        if fields.len() != 5 {
            return Err(invalid(format!("it has {} fields", fields.len())));
        }
        let is_local = !fields.get(1).is_some_and(|hours| hours.starts_with('*'));
        let mut options = ParseOptions::default();
        options.fallback_timezone_option = match zone.iana_name() {
            _ if is_local => FallbackTimezoneOption::UTC,
            None | Some("UTC") => FallbackTimezoneOption::UTC,
            Some(_) => FallbackTimezoneOption::None,
        };
        let mut text = fields.join(" ");
        if let (FallbackTimezoneOption::None, Some(name)) =
            (options.fallback_timezone_option, zone.iana_name())
        {
            text = format!("{text} {name}");
        }
        let crontab = cronexpr::parse_crontab_with(&text, options)
            .map_err(|error| invalid(describe_error(&error)))?;
        let times = Self { crontab, zone: zone.clone(), is_local };
        match times.next_after(REFERENCE_MILLIS) {
            Some(_) => Ok(times),
            None => Err(ScheduleError::CronNever { expression: expression.to_owned() }),
        }
    }

    /// The first occurrence after an instant. `None` if there is none within four years.
    pub(crate) fn next_after(&self, after: Millis) -> Option<Millis> {
        if !self.is_local {
            let next = self.crontab.find_next(timestamp(after)).ok()?;
            return Some(timestamp_millis(next.timestamp()));
        }
        let local = self.zone.to_datetime(timestamp(after));
        let mut local: Timestamp = TimeZone::UTC.to_timestamp(local).ok()?;
        for _ in 0..MAX_EXAMINED_TIMES {
            let next = self.crontab.find_next(local).ok()?;
            let instant = first_instant(&self.zone, next.datetime());
            if instant > after {
                return Some(instant);
            }
            local = next.timestamp();
        }
        None
    }

    /// Whether the instant is an occurrence.
    pub(crate) fn is_occurrence(&self, instant: Millis) -> bool {
        instant.is_multiple_of(1000) && self.next_after(instant.saturating_sub(1)) == Some(instant)
    }

    /// The last occurrence at or before an instant.
    pub(crate) fn last_at(&self, instant: Millis) -> Option<Millis> {
        LOOK_BACK_MINUTES.iter().find_map(|minutes| {
            let from = instant.saturating_sub(minutes.saturating_mul(MINUTE_MILLIS));
            let first = self.next_after(from).filter(|first| *first <= instant)?;
            Some(self.last_between(first, instant))
        })
    }

    /// The last occurrence in a range that begins with one. Halves the range until it is an hour, so that an expression for each minute costs no more.
    fn last_between(&self, first: Millis, instant: Millis) -> Millis {
        let mut found = first;
        let mut end = instant;
        while end.saturating_sub(found) > 60 * MINUTE_MILLIS {
            let middle = found.saturating_add(end.saturating_sub(found) / 2);
            match self.next_after(middle) {
                Some(next) if next <= instant => found = next,
                _ => end = middle,
            }
        }
        while let Some(next) = self.next_after(found).filter(|next| *next <= instant) {
            found = next;
        }
        found
    }
}

/// The last line of the library's text, which draws a caret below the expression.
fn describe_error(error: &cronexpr::Error) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default();
    last.trim_start_matches([' ', '^']).to_owned()
}
