//! `chart`: the distribution of numbers, as a row of bars from minimum to maximum.

use serde_json::{Value, json};

use super::fold::{AggregateFold, SummaryResult, number_of};

/// Most bars in a chart.
const MAX_BARS: usize = 20;

/// The glyphs of the bar heights.
const BAR_GLYPHS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The numbers of all replies: 8 bytes per node.
#[derive(Default)]
pub(super) struct ChartFold {
    numbers: Vec<f64>,
    skipped: u64,
}

/// A distribution: the count of numbers in each of equally wide ranges.
#[derive(Debug, Clone, PartialEq)]
pub struct NumberDistribution {
    /// The minimum.
    pub least: f64,
    /// The maximum.
    pub greatest: f64,
    /// Counts per range, from minimum to maximum; one range if all numbers are equal.
    pub counts: Vec<u64>,
    /// Number of values that are neither numbers nor numeric strings.
    pub skipped: u64,
}

impl AggregateFold for ChartFold {
    fn add_value(&mut self, value: &Value) {
        match number_of(value).and_then(|number| number.as_f64()) {
            Some(number) => self.numbers.push(number),
            None => self.skipped = self.skipped.saturating_add(1),
        }
    }

    fn to_result(&self) -> SummaryResult {
        let least = self.numbers.iter().copied().fold(f64::INFINITY, f64::min);
        let greatest = self.numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut counts =
            vec![0; if least < greatest { MAX_BARS } else { self.numbers.len().min(1) }];
        for number in &self.numbers {
            if let Some(count) = counts.get_mut(range_index(*number, least, greatest)) {
                *count += 1;
            }
        }
        let skipped = self.skipped;
        SummaryResult::Distribution(NumberDistribution { least, greatest, counts, skipped })
    }
}

/// The range of a number. Halves the operands first, because the full width may overflow a float.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share between 0 and 1 of a small number of bars"
)]
fn range_index(number: f64, least: f64, greatest: f64) -> usize {
    let share = (number / 2.0 - least / 2.0) / (greatest / 2.0 - least / 2.0);
    if share.is_finite() { ((share * MAX_BARS as f64) as usize).min(MAX_BARS - 1) } else { 0 }
}

impl NumberDistribution {
    /// The bars between minimum and maximum; `None` without numbers.
    pub fn chart_line(&self) -> Option<String> {
        let most = self.counts.iter().copied().max()?;
        let bar = |count: &u64| {
            let top = BAR_GLYPHS.len() as u64 - 1;
            let height = usize::try_from((count * top).div_ceil(most)).unwrap_or_default();
            BAR_GLYPHS.get(height).copied().unwrap_or(' ')
        };
        let bars: String = self.counts.iter().map(bar).collect();
        Some(format!("{} {bars} {}", self.least, self.greatest))
    }

    /// `{"min": .., "max": .., "counts": [..]}`, or null without numbers.
    pub fn to_json(&self) -> Value {
        if self.counts.is_empty() {
            return Value::Null;
        }
        json!({"min": self.least, "max": self.greatest, "counts": self.counts})
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn spread(values: &[Value]) -> NumberDistribution {
        let mut chart = ChartFold::default();
        for value in values {
            chart.add_value(value);
        }
        match chart.to_result() {
            SummaryResult::Distribution(distribution) => distribution,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn bars_range_from_minimum_to_maximum() {
        let values: Vec<Value> = [0, 0, 0, 0, 10, 20].iter().map(|n| json!(n)).collect();
        assert_eq!(spread(&values).chart_line().unwrap(), "0 █▁▁▁▁▁▁▁▁▁▃▁▁▁▁▁▁▁▁▃ 20");
        assert_eq!(spread(&[json!(7), json!(7)]).chart_line().unwrap(), "7 █ 7");
    }

    #[test]
    fn non_numbers_are_counted_and_no_values_give_no_chart() {
        let distribution = spread(&[json!("x")]);
        assert_eq!((distribution.skipped, distribution.chart_line()), (1, None));
        assert_eq!(distribution.to_json(), Value::Null);
    }

    proptest! {
        #[test]
        fn every_value_is_in_one_bar(numbers in prop::collection::vec(-f64::MAX..f64::MAX, 1..50)) {
            let values: Vec<Value> = numbers.iter().map(|n| json!(n)).collect();
            let distribution = spread(&values);
            prop_assert_eq!(distribution.counts.iter().sum::<u64>(), numbers.len() as u64);
        }
    }
}
