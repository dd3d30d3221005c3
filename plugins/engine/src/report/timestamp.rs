//! Timestamps in the format of Puppet's reports.

use std::time::SystemTime;

/// `2026-11-21T22:39:15.049941570+00:00`.
pub fn format_timestamp(instant: SystemTime) -> String {
    match jiff::Timestamp::try_from(instant) {
        Ok(instant) => instant.strftime("%Y-%m-%dT%H:%M:%S.%9f+00:00").to_string(),
        // Year after 9999 or before -9999.
        Err(_) => "1970-01-01T00:00:00.000000000+00:00".to_owned(),
    }
}

/// Seconds since the epoch of such a timestamp, with any offset; `None` if it is invalid.
pub fn parse_timestamp(text: &str) -> Option<i64> {
    text.parse().ok().map(jiff::Timestamp::as_second)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn timestamps_of_any_offset_are_parsed() {
        for text in ["2026-11-21T22:39:15.049941570+00:00", "2026-11-21T23:39:15.9+01:00"] {
            assert_eq!(super::parse_timestamp(text), Some(1_795_300_755), "{text}");
        }
        assert_eq!(super::parse_timestamp("yesterday"), None);
    }

    #[test]
    fn timestamp_has_nine_digits_and_an_offset() {
        let instant = UNIX_EPOCH + Duration::new(1_795_300_755, 49_941_570);
        assert_eq!(super::format_timestamp(instant), "2026-11-21T22:39:15.049941570+00:00");
    }
}
