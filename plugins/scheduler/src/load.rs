//! The load that is to be expected: how many requests are in progress in each part of the time.

use muster_contract::schedule::ScheduleLoadRow;
use muster_wire::Millis;

/// Parts of the time.
const PARTS: u64 = 60;

/// The load from the first start on, over this length, in 60 parts. Nodes without a measured duration count with the mean of the others.
pub(crate) fn expected_load(
    starts: &[(Millis, Option<Millis>)],
    length: Millis,
) -> Vec<ScheduleLoadRow> {
    let (Some((first, _)), Some((last, _))) = (starts.first(), starts.last()) else {
        return Vec::new();
    };
    let known: Vec<Millis> = starts.iter().filter_map(|(_, duration)| *duration).collect();
    let count = u64::try_from(known.len()).unwrap_or(u64::MAX);
    let mean = known.iter().sum::<Millis>().checked_div(count).unwrap_or(0);
    let part = (length.max(last - first) / PARTS).max(1);
    let part_of = |at: Millis| at.saturating_sub(*first) / part;
    let mut rows: Vec<ScheduleLoadRow> = (0..PARTS)
        .map(|index| ScheduleLoadRow { at: first + index * part, starts: 0, running: 0.0 })
        .collect();
    for (at, duration) in starts {
        let end = at.saturating_add(duration.unwrap_or(mean));
        let own = part_of(*at).min(PARTS - 1);
        for (index, row) in (0..).zip(&mut rows) {
            row.starts += usize::from(index == own);
            let (from, until) = (row.at.max(*at), (row.at + part).min(end));
            row.running += as_f64(until.saturating_sub(from)) / as_f64(part);
        }
    }
    rows
}

/// Durations of at most some days in milliseconds are exact.
#[expect(clippy::cast_precision_loss, reason = "below 2^53")]
fn as_f64(value: Millis) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::expected_load;

    #[test]
    fn load_is_the_sum_of_durations() {
        let starts = [(0, Some(30_000)), (60_000, Some(90_000)), (1_800_000, None)];
        let rows = expected_load(&starts, 3_600_000);
        let sum: f64 = rows.iter().map(|row| row.running * 60_000.0).sum();
        assert!((sum - 180_000.0).abs() < 1.0, "{sum}");
        assert_eq!(rows.iter().map(|row| row.starts).sum::<usize>(), 3);
        assert_eq!((rows[0].starts, rows[1].starts, rows[30].starts), (1, 1, 1));
        assert!(expected_load(&[], 1000).is_empty());
    }
}
