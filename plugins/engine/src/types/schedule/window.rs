//! Decides whether a time is within a schedule, exactly as Puppet 7. Pure: time and time zone are parameters.

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleWindow {
    /// Time ranges of the day; empty means all day.
    pub ranges: Vec<ScheduleTimeRange>,
    /// Days of the week, 0 is Sunday; empty means every day.
    pub days: Vec<i8>,
    /// Period; `None` means no limit.
    pub period: Option<SchedulePeriod>,
    /// Whether periods are compared by calendar number instead of elapsed time.
    pub by_number: bool,
    /// Maximum runs per period.
    pub repeat: i64,
}

/// A time range; wraps around midnight if the end is not later than the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScheduleTimeRange {
    from: Time,
    to: Time,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchedulePeriod {
    Hourly,
    Daily,
    Weekly,
    /// Each month, counted as 30 days.
    Monthly,
    Never,
}

/// The periods with their names and lengths in seconds.
const PERIODS: [(SchedulePeriod, &str, i64); 5] = [
    (SchedulePeriod::Hourly, "hourly", 3600),
    (SchedulePeriod::Daily, "daily", 86_400),
    (SchedulePeriod::Weekly, "weekly", 604_800),
    (SchedulePeriod::Monthly, "monthly", 2_592_000),
    (SchedulePeriod::Never, "never", 2_592_000),
];

impl SchedulePeriod {
    pub(super) fn parse(word: &str) -> Option<Self> {
        PERIODS.iter().find(|(_, name, _)| *name == word).map(|(period, ..)| *period)
    }

    fn length_seconds(self) -> i64 {
        PERIODS.iter().find(|(period, ..)| *period == self).map_or(0, |(.., seconds)| *seconds)
    }
}

impl ScheduleTimeRange {
    /// Parses `2 - 4`, `1:30-4:30:15`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (from, to) = text.split_once('-')?;
        Some(Self { from: parse_time(from)?, to: parse_time(to)? })
    }

    /// `is_allowed_day` checks the day on which the range began.
    fn contains(
        self,
        now: Timestamp,
        today: Date,
        zone: &TimeZone,
        is_allowed_day: impl Fn(Date) -> bool,
    ) -> bool {
        let to_timestamp = |date: Date, time: Time| {
            let timestamp = zone.to_timestamp(date.to_datetime(time));
            timestamp.unwrap_or(Timestamp::MIN)
        };
        let between = |from: (Date, Time), to: (Date, Time)| {
            (to_timestamp(from.0, from.1)..=to_timestamp(to.0, to.1)).contains(&now)
        };
        if self.from < self.to {
            return between((today, self.from), (today, self.to)) && is_allowed_day(today);
        }
        let tomorrow = today.saturating_add(1.day());
        let yesterday = today.saturating_sub(1.day());
        if between((today, self.from), (tomorrow, self.to)) {
            return is_allowed_day(today);
        }
        between((yesterday, self.from), (today, self.to)) && is_allowed_day(yesterday)
    }
}

impl ScheduleWindow {
    /// Whether something last checked at the given time may be changed now.
    pub fn allows_change(
        &self,
        checked: Option<Timestamp>,
        now: Timestamp,
        zone: &TimeZone,
    ) -> bool {
        let today = now.to_zoned(zone.clone()).date();
        let is_allowed_day =
            |date: Date| self.days.is_empty() || self.days.contains(&weekday_number(date));
        let in_range = if self.ranges.is_empty() {
            is_allowed_day(today)
        } else {
            self.ranges.iter().any(|range| range.contains(now, today, zone, is_allowed_day))
        };
        // A resource never checked counts as checked in 1970.
        in_range && self.is_due(checked.unwrap_or(Timestamp::UNIX_EPOCH), now, zone)
    }

    fn is_due(&self, last_checked: Timestamp, now: Timestamp, zone: &TimeZone) -> bool {
        let Some(period) = self.period else { return true };
        let elapsed = now.as_second() - last_checked.as_second();
        if period == SchedulePeriod::Never {
            return false;
        }
        if !self.by_number {
            return elapsed >= period.length_seconds() / self.repeat.max(1);
        }
        let (last_local, now_local) =
            (last_checked.to_zoned(zone.clone()), now.to_zoned(zone.clone()));
        match period {
            SchedulePeriod::Hourly => last_local.hour() != now_local.hour(),
            SchedulePeriod::Daily => last_local.day() != now_local.day(),
            SchedulePeriod::Monthly => last_local.month() != now_local.month(),
            SchedulePeriod::Weekly => {
                let (last_day, now_day) =
                    (weekday_number(last_local.date()), weekday_number(now_local.date()));
                last_day > now_day || now.duration_since(last_checked).as_secs_f64() > 604_800.0
            }
            SchedulePeriod::Never => false,
        }
    }
}

/// 0 is Sunday.
fn weekday_number(date: Date) -> i8 {
    date.weekday().to_sunday_zero_offset()
}

fn parse_time(text: &str) -> Option<Time> {
    let mut parts = [0_i8; 3];
    let words: Vec<&str> = text.trim().split(':').collect();
    if words.len() > parts.len() {
        return None;
    }
    for (part, word) in parts.iter_mut().zip(words) {
        let plain = !word.is_empty() && word.bytes().all(|digit| digit.is_ascii_digit());
        *part = word.parse().ok().filter(|_| plain)?;
    }
    let [hour, minute, second] = parts;
    Time::new(hour, minute, second, 0).ok()
}

/// Parses `Tuesday`, `tue`, `2`.
pub(super) fn parse_weekday(text: &str) -> Option<i8> {
    const DAYS: [&[&str]; 7] = [
        &["sun", "sunday"],
        &["mon", "monday"],
        &["tue", "tues", "tueday", "tuesday"],
        &["wed", "wednes", "wedday", "wednesday"],
        &["thu", "thurs", "thuday", "thursday"],
        &["fri", "friday"],
        &["sat", "satur", "satday", "saturday"],
    ];
    if let [digit @ b'0'..=b'6'] = text.as_bytes() {
        return i8::try_from(digit - b'0').ok();
    }
    let word = text.to_lowercase();
    let day = DAYS.iter().position(|names| names.contains(&word.as_str()))?;
    i8::try_from(day).ok()
}
