//! Conversion between instants and local times.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use muster_wire::Millis;

/// The instant as a timestamp; the last one that exists if it is beyond.
pub(crate) fn timestamp(millis: Millis) -> Timestamp {
    i64::try_from(millis)
        .ok()
        .and_then(|millis| Timestamp::from_millisecond(millis).ok())
        .unwrap_or(Timestamp::MAX)
}

/// Milliseconds since the Unix epoch; zero before it.
pub(crate) fn timestamp_millis(timestamp: Timestamp) -> Millis {
    Millis::try_from(timestamp.as_millisecond()).unwrap_or(0)
}

/// The first instant at which clocks show this time. For a time that is skipped, the end of the gap. Later times never give earlier instants.
pub(crate) fn first_instant(zone: &TimeZone, local: DateTime) -> Millis {
    let offset = match zone.to_ambiguous_timestamp(local).offset() {
        AmbiguousOffset::Unambiguous { offset } => offset,
        AmbiguousOffset::Fold { before, .. } => before,
        AmbiguousOffset::Gap { after, .. } => {
            // With the later offset the time lies before the change, and the next change is the end of the gap.
            let before_gap = after.to_timestamp(local).unwrap_or(Timestamp::MAX);
            let change = zone.following(before_gap).next();
            return timestamp_millis(change.map_or(before_gap, |change| change.timestamp()));
        }
    };
    timestamp_millis(offset.to_timestamp(local).unwrap_or(Timestamp::MAX))
}
