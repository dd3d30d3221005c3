//! Validates a schedule and prepares it for evaluation.

use std::ops::RangeInclusive;

use jiff::tz::TimeZone;
use muster_wire::Millis;

use crate::cron::CronTimes;
use crate::error::ScheduleError;
use crate::interval::IntervalTimes;
use crate::open_times::{OpenTimes, check_count};
use crate::spec::{
    DEFAULT_CATCH_UP_SECONDS, MAX_CATCH_UP_SECONDS, MAX_INTERVAL_SECONDS, MAX_SCHEDULE_BYTES,
    MAX_SPREAD_SECONDS, MAX_TIME_ZONE_BYTES, MAX_TIMEOUT_SECONDS, MIN_INTERVAL_SECONDS,
    ScheduleSpec,
};

/// A valid schedule, prepared for evaluation.
#[derive(Debug, Clone)]
pub struct CompiledSchedule {
    pub(crate) spec: ScheduleSpec,
    pub(crate) timing: ScheduleTiming,
    pub(crate) open_times: OpenTimes,
}

/// When turns begin.
#[derive(Debug, Clone)]
pub(crate) enum ScheduleTiming {
    /// At the begin of each period of an interval.
    Every(IntervalTimes),
    /// At each occurrence of a cron expression.
    Cron(CronTimes),
}

impl ScheduleSpec {
    /// Validates everything. Time zones come from this machine's database, or from the built-in one if it has none.
    ///
    /// # Errors
    /// The first invalid value, with what to write instead.
    pub fn compile(&self) -> Result<CompiledSchedule, ScheduleError> {
        let bytes = self.to_json()?.len();
        if bytes > MAX_SCHEDULE_BYTES {
            return Err(ScheduleError::TooLarge { bytes });
        }
        self.check_filter()?;
        let zone = load_time_zone(self.time_zone.as_deref())?;
        let timing = match (self.every, &self.cron) {
            (Some(every), None) => {
                self.check_interval(every)?;
                ScheduleTiming::Every(IntervalTimes::new(millis(every), zone.clone()))
            }
            (None, Some(expression)) => {
                self.check_cron_seconds()?;
                ScheduleTiming::Cron(CronTimes::parse(expression, &zone)?)
            }
            (every, cron) => {
                return Err(ScheduleError::Timing { both: every.is_some() && cron.is_some() });
            }
        };
        check_seconds("timeout", self.timeout, 1..=MAX_TIMEOUT_SECONDS, "")?;
        let open_times = OpenTimes::parse(&self.windows, &self.blackouts, zone)?;
        Ok(CompiledSchedule { spec: self.clone(), timing, open_times })
    }

    fn check_filter(&self) -> Result<(), ScheduleError> {
        match self.filter.data_source() {
            Some(source) => Err(ScheduleError::DataSource(source.to_owned())),
            None => Ok(()),
        }
    }

    fn check_interval(&self, every: u64) -> Result<(), ScheduleError> {
        let limits = MIN_INTERVAL_SECONDS..=MAX_INTERVAL_SECONDS;
        check_seconds("every", Some(every), limits, "")?;
        if self.spread.is_some() {
            return Err(ScheduleError::Unused { field: "spread", other: "cron" });
        }
        let note = ", as the node's next turn follows then";
        check_seconds("catch_up", self.catch_up, 0..=every, note)?;
        let note = ", because an interval as long as that would skip every other turn";
        check_seconds("skip_if_ran_within", self.skip_if_ran_within, 0..=every - 1, note)
    }

    fn check_cron_seconds(&self) -> Result<(), ScheduleError> {
        check_seconds("spread", self.spread, 0..=MAX_SPREAD_SECONDS, "")?;
        check_seconds("catch_up", self.catch_up, 0..=MAX_CATCH_UP_SECONDS, "")?;
        check_seconds("skip_if_ran_within", self.skip_if_ran_within, 0..=MAX_INTERVAL_SECONDS, "")
    }
}

/// A time zone of this machine's database; UTC if it is not given.
pub(crate) fn load_time_zone(name: Option<&str>) -> Result<TimeZone, ScheduleError> {
    let Some(name) = name else { return Ok(TimeZone::UTC) };
    check_count("time_zone", name.len(), "bytes", MAX_TIME_ZONE_BYTES)?;
    if name == "UTC" {
        return Ok(TimeZone::UTC);
    }
    TimeZone::get(name).map_err(|source| ScheduleError::TimeZone { name: name.to_owned(), source })
}

impl CompiledSchedule {
    /// The schedule as written.
    pub fn spec(&self) -> &ScheduleSpec {
        &self.spec
    }

    /// The time zone of windows, of the cron expression, and of intervals of a day or more.
    pub fn time_zone(&self) -> &TimeZone {
        self.open_times.zone()
    }

    /// The interval; `None` for a cron expression.
    pub fn interval(&self) -> Option<Millis> {
        match &self.timing {
            ScheduleTiming::Every(interval) => Some(interval.length()),
            ScheduleTiming::Cron(_) => None,
        }
    }

    /// How late a start may be.
    pub fn catch_up(&self) -> Millis {
        match (self.spec.catch_up, &self.timing) {
            (Some(seconds), _) => millis(seconds),
            (None, ScheduleTiming::Every(interval)) => interval.length(),
            (None, ScheduleTiming::Cron(_)) => millis(DEFAULT_CATCH_UP_SECONDS),
        }
    }

    /// The time over which the starts of one turn are spread.
    pub fn spread(&self) -> Millis {
        match &self.timing {
            ScheduleTiming::Every(interval) => interval.length(),
            ScheduleTiming::Cron(_) => millis(self.spec.spread.unwrap_or(0)),
        }
    }

    /// Whether starts are permitted at this instant: inside a window and outside all blackouts.
    pub fn is_open(&self, instant: Millis) -> bool {
        self.open_times.is_open(instant)
    }

    /// The first instant at or after this one at which starts are permitted; `None` if there is none within a year.
    pub fn next_open(&self, instant: Millis) -> Option<Millis> {
        self.open_times.next_open(instant)
    }
}

pub(crate) const fn millis(seconds: u64) -> Millis {
    seconds.saturating_mul(1000)
}

fn check_seconds(
    field: &'static str,
    value: Option<u64>,
    limits: RangeInclusive<u64>,
    note: &'static str,
) -> Result<(), ScheduleError> {
    match value {
        Some(value) if !limits.contains(&value) => {
            let (least, most) = limits.into_inner();
            Err(ScheduleError::Seconds { field, value, least, most, note })
        }
        _ => Ok(()),
    }
}
