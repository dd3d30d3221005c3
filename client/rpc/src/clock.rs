//! The wall clock, and display of times. Used for decisions only with tokens.

use muster_wire::Millis;
use muster_wire::token::Seconds;

pub use muster_bus::unix_millis_now as now;

/// Formats a time as RFC 3339 with milliseconds; the bare number if it is out of the calendar's range.
pub fn format_rfc3339(at: Millis) -> String {
    i64::try_from(at)
        .ok()
        .and_then(|at| jiff::Timestamp::from_millisecond(at).ok())
        .map_or_else(|| at.to_string(), |at| format!("{at:.3}"))
}

/// Formats a time as `2026-03-01 12:00:00Z`; the bare number if it is out of the calendar's range.
pub fn format_utc(at: Seconds) -> String {
    i64::try_from(at)
        .ok()
        .and_then(|at| jiff::Timestamp::from_second(at).ok())
        .map_or_else(
            || at.to_string(),
            |at| at.strftime("%Y-%m-%d %H:%M:%SZ").to_string(),
        )
}

#[cfg(test)]
mod tests {
    use super::format_utc;

    #[test]
    fn instants_are_written_in_utc() {
        assert_eq!(format_utc(0), "1970-01-01 00:00:00Z");
        assert_eq!(format_utc(u64::MAX), u64::MAX.to_string());
    }
}
