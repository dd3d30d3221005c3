//! `summary`: counts each value. Each element of an array counts separately.

use serde_json::Value;

use super::label_counts::LabelCounter;
use super::{AggregateFold, SummaryResult};
use crate::schema::AggregateSchema;

pub(super) struct SummaryFold(LabelCounter);

impl SummaryFold {
    pub(super) fn new(aggregate: &AggregateSchema) -> Self {
        Self(LabelCounter::new(aggregate))
    }
}

impl AggregateFold for SummaryFold {
    fn add_value(&mut self, value: &Value) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.add_value(item)),
            other => self.0.count_value(other),
        }
    }

    fn to_result(&self) -> SummaryResult {
        self.0.to_rows()
    }
}
