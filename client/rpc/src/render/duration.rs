//! Formats durations.

use std::time::Duration;

/// `0.42 ms`, `38 ms`, `2.01 s`, `3 m 05 s`.
pub fn format_duration(time: Duration) -> String {
    let milliseconds = time.as_secs_f64() * 1000.0;
    match time.as_secs() {
        0 if milliseconds < 9.995 => format!("{milliseconds:.2} ms"),
        0 if milliseconds < 999.5 => format!("{milliseconds:.0} ms"),
        0..60 => format!("{:.2} s", time.as_secs_f64()),
        seconds => format!("{} m {:02} s", seconds / 60, seconds % 60),
    }
}

/// Formats as `126.19 ms`, always in milliseconds, so that values in a column are comparable.
pub fn format_milliseconds(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1000.0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{format_duration, format_milliseconds};

    #[test]
    fn unit_depends_on_the_duration() {
        for (micros, words) in [
            (0, "0.00 ms"),
            (420, "0.42 ms"),
            (9_994, "9.99 ms"),
            (9_996, "10 ms"),
            (38_100, "38 ms"),
            (999_900, "1.00 s"),
            (2_014_000, "2.01 s"),
            (185_000_000, "3 m 05 s"),
        ] {
            assert_eq!(format_duration(Duration::from_micros(micros)), words);
        }
        assert_eq!(format_milliseconds(Duration::from_micros(1_305_584)), "1305.58 ms");
    }
}
