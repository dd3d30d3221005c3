//! Measures from the nodes' permit times whether the concurrency limit was held. A pure function of values.

use std::time::Duration;

use muster_wire::Millis;

/// Half-open interval in which a run held its permit, in milliseconds since the epoch. The end is excluded: a permit that is released and one that is
/// acquired in the same millisecond may be the same permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PermitInterval {
    /// Start, included.
    pub start: Millis,
    /// End, excluded.
    pub end: Millis,
}

/// Concurrency statistics of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConcurrencyStats {
    /// Number of runs.
    pub runs: usize,
    /// Maximum number of concurrent runs.
    pub highest: usize,
    /// Sum of all run times.
    pub work: Duration,
    /// The longest run.
    pub longest: Duration,
    /// From the first start to the last end.
    pub makespan: Duration,
}

impl ConcurrencyStats {
    /// Minimum time for these runs with this limit.
    pub fn least_duration(&self, limit: usize) -> Duration {
        let limit = u32::try_from(limit.max(1)).unwrap_or(u32::MAX);
        (self.work / limit).max(self.longest)
    }

    /// Ratio of the makespan to the minimum time; `None` when the minimum is zero.
    pub fn makespan_ratio(&self, limit: usize) -> Option<f64> {
        let least = self.least_duration(limit).as_secs_f64();
        (least > 0.0).then(|| self.makespan.as_secs_f64() / least)
    }
}

/// Computes the statistics; `None` without intervals.
pub fn measure_concurrency(intervals: &[PermitInterval]) -> Option<ConcurrencyStats> {
    let first = intervals.iter().map(|interval| interval.start).min()?;
    let last = intervals.iter().map(|interval| interval.end).max()?;
    let duration = |interval: &PermitInterval| {
        Duration::from_millis(interval.end.saturating_sub(interval.start))
    };
    // Exclude empty intervals: the end would sort before the start, and the run would stay counted.
    let non_empty = || intervals.iter().filter(|interval| interval.end > interval.start);
    let starts = non_empty().map(|interval| (interval.start, true));
    let ends = non_empty().map(|interval| (interval.end, false));
    let mut changes: Vec<(Millis, bool)> = starts.chain(ends).collect();
    // `false` sorts first: at the same time, count an end before a start.
    changes.sort_unstable();
    let (mut running, mut highest) = (0_usize, 0_usize);
    for (_, begins) in changes {
        running = if begins { running + 1 } else { running.saturating_sub(1) };
        highest = highest.max(running);
    }
    Some(ConcurrencyStats {
        runs: intervals.len(),
        highest,
        work: intervals.iter().map(duration).sum(),
        longest: intervals.iter().map(duration).max().unwrap_or_default(),
        makespan: Duration::from_millis(last.saturating_sub(first)),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::{PermitInterval, measure_concurrency};

    fn spans(pairs: &[(u64, u64)]) -> Vec<PermitInterval> {
        let span = |&(start, end): &(u64, u64)| PermitInterval { start, end };
        pairs.iter().map(span).collect()
    }

    #[test]
    fn adjacent_runs_are_not_concurrent() {
        let proof = measure_concurrency(&spans(&[(0, 10), (10, 20), (5, 15), (30, 31)])).unwrap();
        assert_eq!((proof.runs, proof.highest), (4, 2));
        let ms = Duration::from_millis;
        assert_eq!((proof.work, proof.longest, proof.makespan), (ms(31), ms(10), ms(31)));
        assert_eq!(
            (proof.least_duration(2), proof.least_duration(31)),
            (ms(15) + Duration::from_micros(500), ms(10))
        );
        assert!((proof.makespan_ratio(2).unwrap() - 2.0).abs() < 1e-9);
        assert_eq!(measure_concurrency(&[]), None);
        assert_eq!(measure_concurrency(&spans(&[(7, 7)])).unwrap().makespan_ratio(1), None);
    }

    #[test]
    fn runs_of_zero_length_are_not_counted() {
        let proof = measure_concurrency(&spans(&[(5, 5), (6, 6), (7, 7)])).unwrap();
        assert_eq!((proof.runs, proof.highest), (3, 0));
        let proof = measure_concurrency(&spans(&[(5, 5), (6, 9), (8, 8)])).unwrap();
        assert_eq!(proof.highest, 1);
    }

    proptest! {
        /// The reference model: counts the runs at the start of each run.
        #[test]
        fn maximum_equals_the_model(pairs in prop::collection::vec((0_u64..50, 1_u64..20), 1..30)) {
            let spans: Vec<PermitInterval> = pairs.iter().map(|&(start, took)| PermitInterval { start, end: start + took }).collect();
            let at = |moment| spans.iter().filter(|span| span.start <= moment && moment < span.end).count();
            let model = spans.iter().map(|span| at(span.start)).max().unwrap();
            prop_assert_eq!(measure_concurrency(&spans).unwrap().highest, model);
        }
    }
}
