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

/// A duration for people, in one or two units: `0.42 ms`, `38 ms`, `2.01 s`, `10 s`, `3 m 05 s`, `2 h 10 m`, `4 d 3 h`.
pub fn format_duration(time: Duration) -> String {
    let microseconds = time.as_micros();
    let seconds = time.as_secs();
    if time.subsec_nanos() == 0 && seconds < 60 {
        return format!("{seconds} s");
    }
    let milliseconds = time.as_secs_f64() * 1000.0;
    match microseconds {
        0..9_995 => return format!("{milliseconds:.2} ms"),
        9_995..999_500 => return format!("{milliseconds:.0} ms"),
        999_500..59_995_000 => return format!("{:.2} s", time.as_secs_f64()),
        _ => {}
    }
    // From a minute on, to the next whole second.
    let seconds = seconds.saturating_add(u64::from(time.subsec_millis() >= 500));
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        ..3600 => format!("{minutes} m {:02} s", seconds % 60),
        3600..86_400 => format!("{hours} h {:02} m", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

/// A time limit as it was given, from what was left of it when the work began: rounded up to 10 ms.
pub fn round_limit(left: Duration) -> Duration {
    Duration::from_millis(duration_millis(left + Duration::from_nanos(9_999_999)) / 10 * 10)
}

/// A number of milliseconds for people, as [`format_duration`] prints it.
pub fn format_millis(millis: u64) -> String {
    format_duration(Duration::from_millis(millis))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::{
        duration_millis, format_duration, format_millis, format_rfc3339, format_utc, round_limit,
        unix_millis,
    };

    #[test]
    fn times_are_formatted_in_utc() {
        assert_eq!(format_utc(0), "1970-01-01 00:00:00Z");
        assert_eq!(format_utc(u64::MAX), u64::MAX.to_string());
        assert_eq!(format_rfc3339(1_500), "1970-01-01T00:00:01.500Z");
        assert_eq!(format_rfc3339(u64::MAX), u64::MAX.to_string());
    }

    #[test]
    fn limits_are_rounded_up_to_what_was_given() {
        for (nanos, millis) in [(0, 0), (1, 10), (999_839_825, 1000), (1_000_000_000, 1000)] {
            assert_eq!(round_limit(Duration::from_nanos(nanos)), Duration::from_millis(millis));
        }
    }

    #[test]
    fn units_depend_on_the_duration() {
        for (micros, words) in [
            (0, "0 s"),
            (420, "0.42 ms"),
            (9_994, "9.99 ms"),
            (9_996, "10 ms"),
            (38_100, "38 ms"),
            (999_900, "1.00 s"),
            (2_014_000, "2.01 s"),
            (10_000_000, "10 s"),
            (59_994_000, "59.99 s"),
            (59_996_000, "1 m 00 s"),
            (185_000_000, "3 m 05 s"),
            (185_500_000, "3 m 06 s"),
            (7_800_000_000, "2 h 10 m"),
            (356_400_000_000, "4 d 3 h"),
        ] {
            assert_eq!(format_duration(Duration::from_micros(micros)), words);
        }
        assert_eq!(format_millis(30_000), "30 s");
        assert!(format_duration(Duration::MAX).ends_with(" h"));
    }

    #[test]
    fn times_before_the_epoch_are_zero() {
        assert_eq!(unix_millis(UNIX_EPOCH - Duration::from_secs(1)), 0);
        assert_eq!(unix_millis(UNIX_EPOCH + Duration::from_millis(7)), 7);
        assert_eq!(duration_millis(Duration::MAX), u64::MAX);
    }
}
