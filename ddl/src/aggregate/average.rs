//! `average`: the arithmetic mean of numbers.

use serde_json::{Number, Value};

use super::sum::SumFold;
use super::{AggregateFold, SummaryResult};

#[derive(Default)]
pub(super) struct AverageFold(SumFold);

impl AggregateFold for AverageFold {
    fn add_value(&mut self, value: &Value) {
        self.0.add_value(value);
    }

    #[expect(clippy::cast_precision_loss, reason = "a fleet has fewer than 2^53 nodes")]
    fn to_result(&self) -> SummaryResult {
        let count = self.0.number_count();
        // Without numbers this divides by zero, and the result (NaN) has no JSON form.
        let value = Number::from_f64(self.0.float_total() / count as f64);
        SummaryResult::Number { value, count, skipped: self.0.skipped_count() }
    }
}
