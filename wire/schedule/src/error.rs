//! Why a schedule is refused: the value, where it is, and what to write instead.

use muster_base::format_millis;

use crate::spec;

/// A schedule that is refused.
#[derive(Debug, thiserror::Error)]
pub enum ScheduleError {
    /// More bytes than allowed.
    #[error("the schedule has {bytes} bytes; at most {} are allowed", spec::MAX_SCHEDULE_BYTES)]
    TooLarge {
        /// Its size as JSON.
        bytes: usize,
    },
    /// Not the JSON of a schedule.
    #[error("the schedule is not valid JSON of a schedule")]
    Json(#[source] serde_json::Error),
    /// Both or none of `every` and `cron`.
    #[error("a schedule has either an interval (`every`) or a cron expression (`cron`); this one has {}", if *.both { "both" } else { "none" })]
    Timing {
        /// Whether both are given.
        both: bool,
    },
    /// A number of seconds outside its limits.
    #[error(
        "`{field}` is {}; it is {} to {}{note}",
        format_seconds(*.value),
        format_seconds(*.least),
        format_seconds(*.most)
    )]
    Seconds {
        /// The field.
        field: &'static str,
        /// The value, in seconds.
        value: u64,
        /// The lowest allowed value, in seconds.
        least: u64,
        /// The highest allowed value, in seconds.
        most: u64,
        /// Why, or nothing.
        note: &'static str,
    },
    /// A field that has no effect without another one.
    #[error("`{field}` has no effect without `{other}`; remove it, or give `{other}`")]
    Unused {
        /// The field.
        field: &'static str,
        /// The field that is missing.
        other: &'static str,
    },
    /// Too many entries or bytes.
    #[error("`{field}` has {count} {unit}; at most {most} are allowed")]
    TooMany {
        /// The field.
        field: &'static str,
        /// How many it has.
        count: usize,
        /// What is counted.
        unit: &'static str,
        /// The limit.
        most: usize,
    },
    /// The filter reads a data source.
    #[error(
        "the filter reads the data source `{0}`, which only nodes can evaluate; the filter of a schedule may use facts, classes, agents and names"
    )]
    DataSource(String),
    /// An unknown time zone.
    #[error("there is no time zone `{name}`; names are those of IANA, such as Europe/Berlin")]
    TimeZone {
        /// The name.
        name: String,
        /// The library's error.
        #[source]
        source: jiff::Error,
    },
    /// An invalid cron expression.
    #[error(
        "the cron expression `{expression}` is invalid: {problem}; it has five fields: minute, hour, day of month, month, day of week"
    )]
    Cron {
        /// The expression.
        expression: String,
        /// What is invalid in it.
        problem: String,
    },
    /// A cron expression without any time.
    #[error("the cron expression `{expression}` matches no day in four years")]
    CronNever {
        /// The expression.
        expression: String,
    },
    /// An invalid window.
    #[error(
        "the window `{window}` is invalid: {problem}; a window is written as `mon-fri 22:00-04:00`"
    )]
    Window {
        /// The window.
        window: String,
        /// What is invalid in it.
        problem: &'static str,
    },
    /// A time of a blackout that is not RFC 3339.
    #[error(
        "`{text}` is not a time for a blackout; write it with its offset, such as 2026-12-24T00:00:00+01:00"
    )]
    BlackoutTime {
        /// The text.
        text: String,
    },
    /// A blackout that ends before it begins.
    #[error("the blackout from {from} until {until} ends before it begins")]
    BlackoutOrder {
        /// Its begin.
        from: String,
        /// Its end.
        until: String,
    },
    /// A reason with control characters.
    #[error("the reason of the blackout from {from} contains control characters")]
    BlackoutReason {
        /// Its begin.
        from: String,
    },
}

fn format_seconds(seconds: u64) -> String {
    format_millis(seconds.saturating_mul(1000))
}
