//! The times in which starts are permitted: inside a window, if there are any, and outside every blackout.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use muster_base::is_harmful;
use muster_wire::Millis;

use crate::compile::load_time_zone;
use crate::error::ScheduleError;
use crate::local_time::timestamp_millis;
use crate::spec::{MAX_BLACKOUTS, MAX_REASON_BYTES, MAX_WINDOWS, ScheduleBlackout};
use crate::windows::WeeklyWindow;

pub(crate) const DAY_MILLIS: Millis = 24 * 60 * 60 * 1000;
/// How far ahead the next open time is searched, in steps of eight days: about a year.
const MAX_SEARCH_STEPS: u64 = 46;
const SEARCH_STEP_MILLIS: Millis = 8 * DAY_MILLIS;

/// Windows and blackouts of a schedule.
#[derive(Debug, Clone)]
pub(crate) struct OpenTimes {
    windows: Vec<WeeklyWindow>,
    /// Sorted.
    blackouts: Vec<(Millis, Millis, String)>,
    zone: TimeZone,
}

impl OpenTimes {
    pub(crate) fn parse(
        windows: &[String],
        blackouts: &[ScheduleBlackout],
        zone: TimeZone,
    ) -> Result<Self, ScheduleError> {
        check_count("windows", windows.len(), "entries", MAX_WINDOWS)?;
        check_count("blackouts", blackouts.len(), "entries", MAX_BLACKOUTS)?;
        let windows =
            windows.iter().map(|text| WeeklyWindow::parse(text)).collect::<Result<_, _>>()?;
        let mut blackouts: Vec<_> =
            blackouts.iter().map(parse_blackout).collect::<Result<_, _>>()?;
        blackouts.sort_unstable();
        Ok(Self { windows, blackouts, zone })
    }

    pub(crate) fn zone(&self) -> &TimeZone {
        &self.zone
    }

    /// Whether starts are permitted at all times.
    pub(crate) fn is_unrestricted(&self) -> bool {
        self.windows.is_empty() && self.blackouts.is_empty()
    }

    pub(crate) fn is_open(&self, instant: Millis) -> bool {
        self.is_unrestricted() || !self.between(instant, instant.saturating_add(1)).is_empty()
    }

    /// The reason of a blackout at that instant.
    pub(crate) fn blackout_reason(&self, instant: Millis) -> Option<&str> {
        let mut blackouts = self.blackouts.iter();
        let found = blackouts.find(|(from, until, _)| (*from..*until).contains(&instant));
        found.map(|(.., reason)| reason.as_str())
    }

    /// The open times of a range, in order, without overlap.
    pub(crate) fn between(&self, from: Millis, until: Millis) -> Vec<(Millis, Millis)> {
        if from >= until {
            return Vec::new();
        }
        let mut open = self.window_times(from, until);
        clip(&mut open, from, until);
        for (begin, end, _) in &self.blackouts {
            open = subtract(open, *begin, *end);
        }
        open
    }

    /// The windows that may touch a range, whole and in order. Those that touch or overlap are joined: they are one window. The range itself without any window.
    fn window_times(&self, from: Millis, until: Millis) -> Vec<(Millis, Millis)> {
        if self.windows.is_empty() {
            return vec![(from, until)];
        }
        let mut found = Vec::new();
        for window in &self.windows {
            window.collect(&self.zone, from, until, &mut found);
        }
        merge(found)
    }

    /// The window over the border between two periods that belongs to the first one: it begins in that and ends in the second one. One that contains a whole period is
    /// not such a window, because it is open in each period for itself.
    pub(crate) fn window_over(
        &self,
        border: Millis,
        first_begin: Millis,
        second_end: Millis,
    ) -> Option<(Millis, Millis)> {
        let windows = self.window_times(first_begin, second_end);
        windows.into_iter().find(|(from, until)| {
            first_begin < *from && *from < border && border < *until && *until < second_end
        })
    }

    /// The end of the last window in a range, if no window is open at the end of the range.
    pub(crate) fn last_window_end(&self, from: Millis, until: Millis) -> Option<Millis> {
        let windows = self.window_times(from, until);
        let last = windows.into_iter().rfind(|(begin, end)| *begin < until && from < *end);
        let (_, end) = last.filter(|_| !self.windows.is_empty())?;
        (end <= until).then_some(end)
    }

    /// The first open instant at or after this one; `None` if there is none within a year.
    pub(crate) fn next_open(&self, instant: Millis) -> Option<Millis> {
        if self.is_unrestricted() {
            return Some(instant);
        }
        (0..MAX_SEARCH_STEPS).find_map(|step| {
            let from = instant.saturating_add(step.saturating_mul(SEARCH_STEP_MILLIS));
            let open = self.between(from, from.saturating_add(SEARCH_STEP_MILLIS));
            open.first().map(|(from, _)| *from)
        })
    }
}

/// Weekly windows that belong to no schedule, as of a promotion of a release.
#[derive(Debug, Clone)]
pub struct MaintenanceWindows(OpenTimes);

impl MaintenanceWindows {
    /// Parses windows as in a schedule, in this time zone; UTC if it is not given. Without any window all times are open.
    ///
    /// # Errors
    /// The first invalid window, or the time zone that is not known.
    pub fn parse(windows: &[String], time_zone: Option<&str>) -> Result<Self, ScheduleError> {
        OpenTimes::parse(windows, &[], load_time_zone(time_zone)?).map(Self)
    }

    /// Whether a window is open at this time.
    pub fn is_open(&self, instant: Millis) -> bool {
        self.0.is_open(instant)
    }
}

pub(crate) fn check_count(
    field: &'static str,
    count: usize,
    unit: &'static str,
    most: usize,
) -> Result<(), ScheduleError> {
    if count <= most { Ok(()) } else { Err(ScheduleError::TooMany { field, count, unit, most }) }
}

fn parse_blackout(blackout: &ScheduleBlackout) -> Result<(Millis, Millis, String), ScheduleError> {
    let ScheduleBlackout { from, until, reason } = blackout;
    let parse = |text: &String| {
        let time = text.parse::<Timestamp>().map(timestamp_millis);
        time.map_err(|_| ScheduleError::BlackoutTime { text: text.chars().take(64).collect() })
    };
    let (begin, end) = (parse(from)?, parse(until)?);
    if begin >= end {
        return Err(ScheduleError::BlackoutOrder { from: from.clone(), until: until.clone() });
    }
    check_count("reason", reason.len(), "bytes", MAX_REASON_BYTES)?;
    if reason.chars().any(is_harmful) {
        return Err(ScheduleError::BlackoutReason { from: from.clone() });
    }
    Ok((begin, end, reason.clone()))
}

/// Cuts ranges to a range.
fn clip(ranges: &mut Vec<(Millis, Millis)>, from: Millis, until: Millis) {
    for (begin, end) in ranges.iter_mut() {
        (*begin, *end) = ((*begin).max(from), (*end).min(until));
    }
    ranges.retain(|(begin, end)| begin < end);
}

/// Sorts, and joins ranges that touch.
fn merge(mut ranges: Vec<(Millis, Millis)>) -> Vec<(Millis, Millis)> {
    ranges.sort_unstable();
    let mut merged: Vec<(Millis, Millis)> = Vec::new();
    for (begin, end) in ranges {
        match merged.last_mut() {
            Some((_, last)) if begin <= *last => *last = end.max(*last),
            _ => merged.push((begin, end)),
        }
    }
    merged
}

fn subtract(open: Vec<(Millis, Millis)>, begin: Millis, end: Millis) -> Vec<(Millis, Millis)> {
    let parts =
        |(from, until): (Millis, Millis)| [(from, until.min(begin)), (from.max(end), until)];
    open.into_iter().flat_map(parts).filter(|(from, until)| from < until).collect()
}
