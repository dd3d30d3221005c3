//! The distribution of events over time: how many of them come in 100 ms.

use std::time::Duration;

/// Length of an interval.
const INTERVAL: Duration = Duration::from_millis(100);

/// The distribution of events, such as connections, over time.
#[derive(Debug, PartialEq)]
pub(crate) struct EventShape {
    pub(crate) first: Duration,
    pub(crate) last: Duration,
    pub(crate) mean: f64,
    pub(crate) most: usize,
}

impl EventShape {
    /// Evaluates sorted times; there must be at least one.
    pub(crate) fn from_times(times: &[Duration]) -> Self {
        let (first, last) = (*times.first().unwrap(), *times.last().unwrap());
        let interval =
            |time: &Duration| time.saturating_sub(first).as_nanos() / INTERVAL.as_nanos();
        let intervals = interval(&last) + 1;
        let most = times
            .chunk_by(|one, other| interval(one) == interval(other))
            .map(<[Duration]>::len)
            .max();
        let count = |number: u128| f64::from(u32::try_from(number).unwrap());
        Self {
            first,
            last,
            mean: count(times.len() as u128) / count(intervals),
            most: most.unwrap(),
        }
    }

    pub(crate) fn peak(&self) -> f64 {
        f64::from(u32::try_from(self.most).unwrap()) / self.mean
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::EventShape;

    #[test]
    fn mean_covers_the_intervals_from_first_to_last() {
        let at = |ms: &[u64]| ms.iter().copied().map(Duration::from_millis).collect::<Vec<_>>();
        let even = EventShape::from_times(&at(&[500, 600, 700, 800]));
        assert!((even.mean - 1.0).abs() < f64::EPSILON && even.most == 1);
        let burst = EventShape::from_times(&at(&[500, 510, 520, 599, 600, 890]));
        assert_eq!(burst.most, 4);
        assert!((burst.mean - 1.5).abs() < f64::EPSILON);
        assert!((burst.peak() - 4.0 / 1.5).abs() < 1e-9);
        let one = EventShape::from_times(&at(&[7]));
        assert!((one.peak() - 1.0).abs() < f64::EPSILON);
    }
}
