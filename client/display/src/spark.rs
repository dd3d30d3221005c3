//! Renders the distribution of numbers as a line of bars, from the minimum on the left to the maximum on the right.

/// Number of bars per line.
pub const BAR_COUNT: usize = 20;
/// Bars by height; the lowest also marks an empty bucket.
const UNICODE_BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The same for output restricted to ASCII.
const ASCII_BARS: [char; 8] = ['_', '.', ':', '-', '=', '+', '*', '#'];

/// Counts the numbers in equal intervals between minimum and maximum; all are in the first if they are equal. Non-finite numbers are skipped.
pub fn count_buckets(numbers: &[f64]) -> [usize; BAR_COUNT] {
    let mut buckets = [0; BAR_COUNT];
    let Some((min, max)) = finite_bounds(numbers) else {
        return buckets;
    };
    let width = max - min;
    for number in numbers.iter().filter(|number| number.is_finite()) {
        let position = if width > 0.0 { (number - min) / width } else { 0.0 };
        if let Some(count) = buckets.get_mut(bucket_index(position)) {
            *count += 1;
        }
    }
    buckets
}

/// Minimum and maximum of the finite numbers.
pub fn finite_bounds(numbers: &[f64]) -> Option<(f64, f64)> {
    let numbers = numbers.iter().copied().filter(|number| number.is_finite());
    numbers.fold(None, |bounds, number| {
        let (min, max) = bounds.unwrap_or((number, number));
        Some((number.min(min), number.max(max)))
    })
}

/// The bucket of a position between 0 and 1; the last bucket includes 1.
fn bucket_index(position: f64) -> usize {
    let bars = u32::try_from(BAR_COUNT).map_or(1.0, f64::from);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the value is clamped between 0 and BAR_COUNT"
    )]
    let bucket = (position * bars).clamp(0.0, bars) as usize;
    bucket.min(BAR_COUNT - 1)
}

/// A bar for each bucket, relative to the largest one.
pub fn render_spark_bars(buckets: &[usize; BAR_COUNT], utf8: bool) -> String {
    let heights = if utf8 { UNICODE_BARS } else { ASCII_BARS };
    let max = buckets.iter().copied().max().unwrap_or_default().max(1);
    let [lowest, ..] = heights;
    let bar = |&count: &usize| {
        // A non-empty bucket is always higher than an empty one.
        let steps = heights.len() - 1;
        let height = (count * steps).div_ceil(max);
        heights.get(height).copied().unwrap_or(lowest)
    };
    buckets.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{BAR_COUNT, count_buckets, finite_bounds, render_spark_bars};

    #[test]
    fn bars_are_at_the_positions_of_the_values() {
        let numbers = [1.0, 1.1, 1.2, 40.0, 41.0, 100.0, f64::NAN];
        let spread = count_buckets(&numbers);
        assert_eq!((spread[0], spread[7], spread[8], spread[19]), (3, 1, 1, 1));
        assert_eq!(render_spark_bars(&spread, true), "█▁▁▁▁▁▁▄▄▁▁▁▁▁▁▁▁▁▁▄");
        assert_eq!(render_spark_bars(&spread, false), "#______--__________-");
        assert_eq!(render_spark_bars(&count_buckets(&[]), false), "_".repeat(BAR_COUNT));
        assert_eq!(
            render_spark_bars(&count_buckets(&[5.0, 5.0]), false),
            format!("#{}", "_".repeat(BAR_COUNT - 1))
        );
        assert_eq!(finite_bounds(&[f64::INFINITY]), None);
    }

    proptest! {
        #[test]
        fn every_value_is_in_one_bucket(numbers in prop::collection::vec(-1e9_f64..1e9, 0..50)) {
            let spread = count_buckets(&numbers);
            prop_assert_eq!(spread.iter().sum::<usize>(), numbers.len());
            prop_assert_eq!(render_spark_bars(&spread, true).chars().count(), BAR_COUNT);
        }
    }
}
