//! The wall clock, and how an instant is written for people. Nothing is decided on it but what tokens say.

use std::time::{SystemTime, UNIX_EPOCH};

use muster_wire::Millis;
use muster_wire::token::Seconds;

/// Milliseconds since the epoch. A clock before the epoch counts as the epoch.
pub fn now() -> Millis {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}

/// An instant as RFC 3339 has it, with milliseconds; the bare number if no calendar has it.
pub fn format_rfc3339(at: Millis) -> String {
    i64::try_from(at)
        .ok()
        .and_then(|at| jiff::Timestamp::from_millisecond(at).ok())
        .map_or_else(|| at.to_string(), |at| format!("{at:.3}"))
}

/// An instant as `2026-03-01 12:00:00Z`; the bare number if no calendar has it.
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
