//! Formats durations in columns.

use std::time::Duration;

/// Formats as `126.19 ms`, always in milliseconds, so that values in a column are comparable.
pub fn format_milliseconds(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1000.0)
}

/// Formats seconds in the unit that people use for them: `90s`, `2m`, `3h`, `5d`; `-` if they are not known.
pub fn format_age(seconds: Option<u64>) -> String {
    match seconds {
        None => "-".to_owned(),
        Some(seconds @ 0..120) => format!("{seconds}s"),
        Some(seconds @ 120..7200) => format!("{}m", seconds / 60),
        Some(seconds @ 7200..172_800) => format!("{}h", seconds / 3600),
        Some(seconds) => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{format_age, format_milliseconds};

    #[test]
    fn age_has_one_unit() {
        let ages = [None, Some(119), Some(120), Some(7300), Some(200_000)].map(format_age);
        assert_eq!(ages, ["-", "119s", "2m", "2h", "2d"]);
    }

    #[test]
    fn unit_is_always_milliseconds() {
        assert_eq!(format_milliseconds(Duration::from_micros(1_305_584)), "1305.58 ms");
    }
}
