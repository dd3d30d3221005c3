//! `summary`: how often each value occurs. An array counts as each of its elements.

use serde_json::Value;

use super::tally::Tally;
use super::{Fold, SummaryResult};
use crate::schema::Aggregate;

pub(super) struct Summary(Tally);

impl Summary {
    pub(super) fn new(aggregate: &Aggregate) -> Self {
        Self(Tally::new(aggregate))
    }
}

impl Fold for Summary {
    fn add(&mut self, value: &Value) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.add(item)),
            other => self.0.count(other),
        }
    }

    fn finish(&self) -> SummaryResult {
        self.0.rows()
    }
}
