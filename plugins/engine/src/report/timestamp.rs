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

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn timestamp_has_nine_digits_and_an_offset() {
        let instant = UNIX_EPOCH + Duration::new(1_795_300_755, 49_941_570);
        assert_eq!(super::format_timestamp(instant), "2026-11-21T22:39:15.049941570+00:00");
    }
}
