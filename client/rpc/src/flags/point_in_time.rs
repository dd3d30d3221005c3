//! Parses points in time: `now`, `today`, `yesterday`, a time ago such as `2h` or `30d`, or a date such as `2026-11-26` or `2026-11-26T08:00:00Z`.

use std::time::Duration;

use muster_base::duration_millis;
use muster_filter::parse_date_millis;
use muster_wire::Millis;

use crate::flags::lifetime::parse_lifetime;

/// Milliseconds of a day.
const DAY: Millis = 24 * 60 * 60 * 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PointInTime {
    Ago(Duration),
    /// The beginning of the day that is this many days ago, in UTC.
    Day(u64),
    /// Milliseconds since the epoch.
    At(Millis),
}

impl PointInTime {
    /// A date without a zone is UTC.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "now" => return Ok(Self::Ago(Duration::ZERO)),
            "today" => return Ok(Self::Day(0)),
            "yesterday" => return Ok(Self::Day(1)),
            _ => {}
        }
        let date = parse_date_millis(text).and_then(|millis| u64::try_from(millis).ok());
        if let Some(millis) = date {
            return Ok(Self::At(millis));
        }
        parse_lifetime(text).map(Self::Ago).map_err(|_| {
            format!(
                "`{text}` is not a point in time; use now, today, yesterday, a time ago as in 2h or 30d, or a date as in 2026-11-26 or 2026-11-26T08:00:00Z"
            )
        })
    }

    /// Milliseconds since the epoch, at this time of the clock.
    pub fn millis(self, now: Millis) -> Millis {
        match self {
            Self::Ago(time) => now.saturating_sub(duration_millis(time)),
            Self::Day(ago) => (now / DAY).saturating_sub(ago) * DAY,
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
        assert_eq!(millis("today"), Ok(950_400_000));
        assert_eq!(millis("yesterday"), Ok(864_000_000));
        for text in ["", "tomorrow", "5", "1960-01-01", "-1h"] {
            assert!(millis(text).unwrap_err().contains("is not a point in time"), "{text}");
        }
    }
}
