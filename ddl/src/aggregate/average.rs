//! `average`: the arithmetic mean of numbers.

use serde_json::{Number, Value};

use super::sum::Sum;
use super::{Fold, SummaryResult};

#[derive(Default)]
pub(super) struct Average(Sum);

impl Fold for Average {
    fn add(&mut self, value: &Value) {
        self.0.add(value);
    }

    #[expect(clippy::cast_precision_loss, reason = "no fleet has 2^53 nodes")]
    fn finish(&self) -> SummaryResult {
        let count = self.0.count();
        // Without numbers this divides by zero, and the result is no JSON number.
        let value = Number::from_f64(self.0.total() / count as f64);
        SummaryResult::Number {
            value,
            count,
            skipped: self.0.skipped(),
        }
    }
}
