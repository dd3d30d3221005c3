//! The wall clock as numbers, and times as text in UTC.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Time since the Unix epoch. Zero for a time before it.
pub fn since_epoch(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Milliseconds since the Unix epoch. Zero for a time before it.
pub fn unix_millis(time: SystemTime) -> u64 {
    duration_millis(since_epoch(time))
}

/// This machine's clock, in milliseconds since the Unix epoch.
pub fn unix_millis_now() -> u64 {
    unix_millis(SystemTime::now())
}

/// Whole milliseconds; the largest number for longer durations.
pub fn duration_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A time in milliseconds since the Unix epoch as RFC 3339 with milliseconds; the number itself beyond the year 9999.
pub fn format_rfc3339(millis: u64) -> String {
    let time = i64::try_from(millis)
        .ok()
        .and_then(|millis| jiff::Timestamp::from_millisecond(millis).ok());
    time.map_or_else(|| millis.to_string(), |time| format!("{time:.3}"))
}

/// A time in seconds since the Unix epoch as `2026-03-01 12:00:00Z`; the number itself beyond the year 9999.
pub fn format_utc(seconds: u64) -> String {
    let time =
        i64::try_from(seconds).ok().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    let format = |time: jiff::Timestamp| time.strftime("%Y-%m-%d %H:%M:%SZ").to_string();
    time.map_or_else(|| seconds.to_string(), format)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::{duration_millis, format_rfc3339, format_utc, unix_millis};

    #[test]
    fn times_are_formatted_in_utc() {
        assert_eq!(format_utc(0), "1970-01-01 00:00:00Z");
        assert_eq!(format_utc(u64::MAX), u64::MAX.to_string());
        assert_eq!(format_rfc3339(1_500), "1970-01-01T00:00:01.500Z");
        assert_eq!(format_rfc3339(u64::MAX), u64::MAX.to_string());
    }

    #[test]
    fn times_before_the_epoch_are_zero() {
        assert_eq!(unix_millis(UNIX_EPOCH - Duration::from_secs(1)), 0);
        assert_eq!(unix_millis(UNIX_EPOCH + Duration::from_millis(7)), 7);
        assert_eq!(duration_millis(Duration::MAX), u64::MAX);
    }
}
