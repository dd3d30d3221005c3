//! `sum`: the total of numbers; exact if all of them are integers. `average`: their arithmetic mean.

use serde_json::{Number, Value};

use super::fold::{AggregateFold, SummaryResult, number_of};

/// A running total.
#[derive(Default)]
pub(super) struct SumFold {
    /// The total of integers. An i128 fits 2^63 numbers of 64 bits, so it cannot overflow.
    integers: i128,
    floats: f64,
    has_floats: bool,
    count: u64,
    skipped: u64,
}

impl SumFold {
    /// The total as a float, with rounding.
    #[expect(clippy::cast_precision_loss, reason = "the caller requires a float")]
    fn float_total(&self) -> f64 {
        self.integers as f64 + self.floats
    }

    fn exact_total(&self) -> Option<Number> {
        if self.has_floats { None } else { Number::from_i128(self.integers) }
    }
}

impl AggregateFold for SumFold {
    fn add_value(&mut self, value: &Value) {
        let Some(number) = number_of(value) else {
            self.skipped = self.skipped.saturating_add(1);
            return;
        };
        self.count = self.count.saturating_add(1);
        if let Some(integer) = number.as_i128() {
            self.integers = self.integers.saturating_add(integer);
        } else {
            self.has_floats = true;
            self.floats += number.as_f64().unwrap_or_default();
        }
    }

    fn to_result(&self) -> SummaryResult {
        let value = match self.count {
            0 => None,
            _ => self.exact_total().or_else(|| Number::from_f64(self.float_total())),
        };
        SummaryResult::Number { value, count: self.count, skipped: self.skipped }
    }
}

#[derive(Default)]
pub(super) struct AverageFold(SumFold);

impl AggregateFold for AverageFold {
    fn add_value(&mut self, value: &Value) {
        self.0.add_value(value);
    }

    #[expect(clippy::cast_precision_loss, reason = "a fleet has fewer than 2^53 nodes")]
    fn to_result(&self) -> SummaryResult {
        let SumFold { count, skipped, .. } = self.0;
        // Without numbers this divides by zero, and the result (NaN) has no JSON form.
        let value = Number::from_f64(self.0.float_total() / count as f64);
        SummaryResult::Number { value, count, skipped }
    }
}
