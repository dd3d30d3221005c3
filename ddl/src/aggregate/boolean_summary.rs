//! `boolean_summary`: counts true and false, under the labels in the DDL. Other values are counted as themselves, so that the
//! counts add up.

use serde_json::Value;

use super::label_counts::LabelCounter;
use super::{AggregateFold, SummaryResult};
use crate::schema::AggregateSchema;

pub(super) struct BooleanSummaryFold(LabelCounter);

impl BooleanSummaryFold {
    pub(super) fn new(aggregate: &AggregateSchema) -> Self {
        Self(LabelCounter::new(aggregate))
    }
}

impl AggregateFold for BooleanSummaryFold {
    fn add_value(&mut self, value: &Value) {
        self.0.count_value(value);
    }

    fn to_result(&self) -> SummaryResult {
        self.0.to_rows()
    }
}
