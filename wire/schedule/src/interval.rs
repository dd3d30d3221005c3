//! The times of an interval: multiples of its length since the begin of 1970.
//!
//! An interval below one day is counted in elapsed time. One of a day or more is counted on the clocks of the schedule's time zone, so that its borders are midnights there,
//! and a period has an hour less or more when clocks change.

use jiff::SignedDuration;
use jiff::civil::{DateTime, date};
use jiff::tz::TimeZone;
use muster_wire::Millis;

use crate::local_time::{first_instant, timestamp};
use crate::open_times::DAY_MILLIS;

/// Local time from which periods of a day or more are counted.
const FIRST_PERIOD: DateTime = date(1970, 1, 1).at(0, 0, 0, 0);
/// How many periods around the one on the clock are examined. Clocks that are set back by up to a day show a later period than the one that goes on, or an earlier one.
const EXAMINED_PERIODS: i64 = 2;

/// An interval with its time zone.
#[derive(Debug, Clone)]
pub(crate) struct IntervalTimes {
    length: Millis,
    zone: TimeZone,
}

impl IntervalTimes {
    pub(crate) fn new(length: Millis, zone: TimeZone) -> Self {
        Self { length, zone }
    }

    /// Its length without changes of clocks.
    pub(crate) fn length(&self) -> Millis {
        self.length
    }

    /// Whether it is counted on the clocks of its zone.
    pub(crate) fn is_local(&self) -> bool {
        self.length >= DAY_MILLIS
    }

    /// The begin of the first period after an instant.
    pub(crate) fn next_after(&self, after: Millis) -> Option<Millis> {
        if !self.is_local() {
            return (after / self.length).checked_add(1)?.checked_mul(self.length);
        }
        self.begins_around(after).into_iter().find(|begin| *begin > after)
    }

    /// The begin of the period in which an instant is.
    pub(crate) fn last_at(&self, instant: Millis) -> Option<Millis> {
        if !self.is_local() {
            return Some(instant - instant % self.length);
        }
        self.begins_around(instant).into_iter().rev().find(|begin| *begin <= instant)
    }

    /// Whether a period begins at the instant.
    pub(crate) fn is_begin(&self, instant: Millis) -> bool {
        self.last_at(instant) == Some(instant)
    }

    /// The begins of the periods around an instant, in order.
    fn begins_around(&self, instant: Millis) -> Vec<Millis> {
        let local = self.zone.to_datetime(timestamp(instant));
        let length = i64::try_from(self.length).unwrap_or(i64::MAX);
        let elapsed = local.duration_since(FIRST_PERIOD).as_millis();
        let number = i64::try_from(elapsed.div_euclid(length.into())).unwrap_or(i64::MAX);
        let begin = |number: i64| {
            let offset = SignedDuration::from_millis(number.checked_mul(length)?);
            Some(first_instant(&self.zone, FIRST_PERIOD.checked_add(offset).ok()?))
        };
        let examined = -EXAMINED_PERIODS..=EXAMINED_PERIODS;
        examined.filter_map(|step| begin(number.saturating_add(step))).collect()
    }
}
