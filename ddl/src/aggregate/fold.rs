//! The state of a summary while replies arrive, and its result.

use serde_json::{Number, Value};

use super::chart::NumberDistribution;

/// The number of a value, also of a numeric string, as in Choria: agents often return numbers as strings. Infinity and NaN do not count.
pub(super) fn number_of(value: &Value) -> Option<Number> {
    let text = match value {
        Value::Number(number) => return Some(number.clone()),
        Value::String(text) => text,
        _ => return None,
    };
    let integer = text.parse::<i64>().map(Number::from);
    let integer = integer.or_else(|_| text.parse::<u64>().map(Number::from));
    integer.ok().or_else(|| Number::from_f64(text.parse().ok()?))
}

/// The state of one function on one output.
pub(super) trait AggregateFold: Send {
    fn add_value(&mut self, value: &Value);
    fn to_result(&self) -> SummaryResult;
}

/// The value of a summary.
#[derive(Debug, Clone, PartialEq)]
pub enum SummaryResult {
    /// Values with their counts: most frequent first, then by value.
    Rows(Vec<(String, u64)>),
    /// One number.
    Number {
        /// The number; `None` if no reply held one, or the result is not representable in JSON.
        value: Option<Number>,
        /// Number of values included.
        count: u64,
        /// Number of values that are neither numbers nor numeric strings.
        skipped: u64,
    },
    /// The distribution of numbers.
    Distribution(NumberDistribution),
}
