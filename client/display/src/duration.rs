//! Formats durations in columns.

use std::time::Duration;

/// Formats as `126.19 ms`, always in milliseconds, so that values in a column are comparable.
pub fn format_milliseconds(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1000.0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::format_milliseconds;

    #[test]
    fn unit_is_always_milliseconds() {
        assert_eq!(format_milliseconds(Duration::from_micros(1_305_584)), "1305.58 ms");
    }
}
