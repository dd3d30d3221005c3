//! Parses durations in seconds on the command line.

use std::time::Duration;

/// Maximum duration: one day, the limit of the protocol.
const MAX_DURATION: Duration = Duration::from_hours(24);

/// Parses `2`, `0.5` or `2s`; from 0.001 seconds to one day.
pub fn parse_seconds(text: &str) -> Result<Duration, String> {
    let number = text.strip_suffix('s').unwrap_or(text);
    let seconds = number.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds
        .filter(|time| *time >= Duration::from_millis(1) && *time <= MAX_DURATION)
        .ok_or_else(|| "expected seconds from 0.001 to 86400".to_owned())
}

/// Parses a duration that may be zero: `0`, or a value of [`parse_seconds`].
pub fn parse_pause(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    parse_seconds(text).map_err(|_| "expected seconds: 0, or from 0.001 to 86400".to_owned())
}

/// Whole seconds for an action: a part of a second is better waited for than not.
pub fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{parse_pause, parse_seconds};

    #[test]
    fn parses_whole_and_fractional_seconds() {
        assert_eq!(parse_seconds("2"), Ok(Duration::from_secs(2)));
        assert_eq!(parse_seconds("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_seconds("86400s"), Ok(Duration::from_hours(24)));
        for text in ["", "0", "-1", "s", "1m", "86401", "inf", "NaN", "1e300", "0.0001"] {
            assert!(parse_seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn pause_can_be_zero() {
        assert_eq!(parse_pause("0"), Ok(Duration::ZERO));
        assert_eq!(parse_pause("0.25"), Ok(Duration::from_millis(250)));
        assert!(parse_pause("").is_err() && parse_pause("-1").is_err());
    }
}
