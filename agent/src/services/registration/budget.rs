//! How many records a node may write: some at once, so that a change is visible at once, and few in the long run, because every directory reads each.

use std::time::Duration;

use tokio::time::Instant;

/// Records that a node may write without a pause, after it has written none for this number of intervals.
const MAX_SAVED_RECORDS: u32 = 6;

/// One record for each interval; those that were not used are saved, up to a number.
#[derive(Debug)]
pub(super) struct RecordBudget {
    interval: Duration,
    /// When the saved records were full, or will be.
    full_at: Option<Instant>,
}

impl RecordBudget {
    pub(super) fn new(interval: Duration) -> Self {
        Self { interval, full_at: None }
    }

    /// Whether a record may be written now.
    pub(super) fn has_record(&self, now: Instant) -> bool {
        let missing = self.full_at.map_or(Duration::ZERO, |at| at.saturating_duration_since(now));
        missing <= self.interval * (MAX_SAVED_RECORDS - 1)
    }

    /// Notes that a record was written.
    pub(super) fn take_record(&mut self, now: Instant) {
        self.full_at = Some(self.full_at.map_or(now, |at| at.max(now)) + self.interval);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_records_are_written_at_once_and_then_one_for_each_interval() {
        let start = Instant::now();
        let interval = Duration::from_secs(10);
        let mut budget = RecordBudget::new(interval);
        let mut written = |from: Instant, seconds: u64| {
            let times = (0..seconds).map(|second| from + Duration::from_secs(second));
            times
                .filter(|now| {
                    let has_record = budget.has_record(*now);
                    if has_record {
                        budget.take_record(*now);
                    }
                    has_record
                })
                .count()
        };
        assert_eq!(written(start, 5), 5);
        assert_eq!(written(start + Duration::from_secs(5), 5), 1);
        assert_eq!(written(start + Duration::from_secs(10), 100), 10);
        let later = start + Duration::from_hours(1);
        assert_eq!(written(later, 6), 6);
        let mut unlimited = RecordBudget::new(Duration::ZERO);
        for _ in 0..100 {
            assert!(unlimited.has_record(start));
            unlimited.take_record(start);
        }
    }
}
