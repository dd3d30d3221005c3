//! `boolean_summary`: how often true and false occur, under the labels that the DDL gives them.
//! What is no boolean is counted as it is, so that the counts add up.

use serde_json::Value;

use super::tally::Tally;
use super::{Fold, SummaryResult};
use crate::schema::Aggregate;

pub(super) struct BooleanSummary(Tally);

impl BooleanSummary {
    pub(super) fn new(aggregate: &Aggregate) -> Self {
        Self(Tally::new(aggregate))
    }
}

impl Fold for BooleanSummary {
    fn add(&mut self, value: &Value) {
        self.0.count(value);
    }

    fn finish(&self) -> SummaryResult {
        self.0.rows()
    }
}
