//! Parses points in time: `now`, a time ago such as `2h` or `30d`, or a date such as `2026-11-26` or `2026-11-26T08:00:00Z`.

use std::time::Duration;

use muster_base::duration_millis;
use muster_filter::parse_date_millis;
use muster_wire::Millis;

use crate::flags::lifetime::parse_lifetime;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PointInTime {
    Ago(Duration),
    /// Milliseconds since the epoch.
    At(Millis),
}

impl PointInTime {
    /// A date without a zone is UTC.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == "now" {
            return Ok(Self::Ago(Duration::ZERO));
        }
        let date = parse_date_millis(text).and_then(|millis| u64::try_from(millis).ok());
        if let Some(millis) = date {
            return Ok(Self::At(millis));
        }
        parse_lifetime(text).map(Self::Ago).map_err(|_| {
            format!(
                "`{text}` is not a point in time; use now, a time ago as in 2h or 30d, or a date as in 2026-11-26 or 2026-11-26T08:00:00Z"
            )
        })
    }

    /// Milliseconds since the epoch, at this time of the clock.
    pub fn millis(self, now: Millis) -> Millis {
        match self {
            Self::Ago(time) => now.saturating_sub(duration_millis(time)),
            Self::At(millis) => millis,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_relative_or_dates() {
        let now = 1_000_000_000;
        let millis = |text: &str| PointInTime::parse(text).map(|time| time.millis(now));
        assert_eq!(millis("now"), Ok(now));
        assert_eq!(millis("10s"), Ok(now - 10_000));
        assert_eq!(millis("1d"), Ok(now - 86_400_000));
        assert_eq!(millis("1970-01-02"), Ok(86_400_000));
        assert_eq!(millis("1970-01-01T00:00:01Z"), Ok(1000));
        assert_eq!(millis("100y"), Ok(0));
        for text in ["", "yesterday", "5", "1960-01-01", "-1h"] {
            assert!(millis(text).unwrap_err().contains("is not a point in time"), "{text}");
        }
    }
}
