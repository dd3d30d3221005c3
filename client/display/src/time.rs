//! Times for people: in the time zone of the reader, or in UTC. Documents for programs have numbers, and RFC 3339 in UTC.

use std::sync::{LazyLock, OnceLock};

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// The zone of all times of this process. UTC until it is set, as in tests. Read when the first time is printed: the database of zones is a hundred
/// directories and files, a third of the time of a short command.
static READER_ZONE: OnceLock<LazyLock<TimeZone>> = OnceLock::new();

/// Sets the zone of the reader: UTC, or that of `TZ` and of the machine. Only the first call has an effect.
pub fn set_reader_zone(utc: bool) {
    let read: fn() -> TimeZone = if utc { || TimeZone::UTC } else { TimeZone::system };
    // Set once, at the start of the process.
    let _ = READER_ZONE.set(LazyLock::new(read));
}

/// A time in seconds since the Unix epoch as `2026-03-01 12:00:00Z`, or with the offset of the reader's zone instead of `Z`; the number itself beyond
/// the year 9999.
pub fn format_time(seconds: u64) -> String {
    format_in_zone(seconds, READER_ZONE.get().map_or(&TimeZone::UTC, |zone| zone))
}

/// A time in milliseconds since the Unix epoch, as [`format_time`] prints it.
pub fn format_time_millis(millis: u64) -> String {
    format_time(millis / 1000)
}

fn format_in_zone(seconds: u64, zone: &TimeZone) -> String {
    let time = i64::try_from(seconds).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    let Some(time) = time else { return seconds.to_string() };
    let time = time.to_zoned(zone.clone());
    let is_utc = *zone == TimeZone::UTC || zone.iana_name().is_some_and(|name| name == "Etc/UTC");
    time.strftime(if is_utc { "%Y-%m-%d %H:%M:%SZ" } else { "%Y-%m-%d %H:%M:%S%:z" }).to_string()
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::format_in_zone;

    #[test]
    fn times_have_the_offset_of_the_zone() {
        let zone = |name: &str| TimeZone::get(name).unwrap();
        assert_eq!(format_in_zone(0, &TimeZone::UTC), "1970-01-01 00:00:00Z");
        assert_eq!(format_in_zone(0, &zone("Etc/UTC")), "1970-01-01 00:00:00Z");
        let berlin = zone("Europe/Berlin");
        assert_eq!(format_in_zone(1_767_225_600, &berlin), "2026-01-01 01:00:00+01:00");
        assert_eq!(format_in_zone(1_782_864_000, &berlin), "2026-07-01 02:00:00+02:00");
        assert_eq!(
            format_in_zone(1_767_225_600, &zone("Asia/Kolkata")),
            "2026-01-01 05:30:00+05:30"
        );
        assert_eq!(format_in_zone(u64::MAX, &berlin), u64::MAX.to_string());
    }
}
