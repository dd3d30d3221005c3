//! `summary` and `boolean_summary`: count each value, under the labels in the DDL. Values without a label are counted as
//! themselves, so that the counts add up. `summary` counts each element of an array separately.

use std::collections::BTreeMap;

use serde_json::Value;

use super::fold::{AggregateFold, SummaryResult};
use super::function::AggregateFunction;
use crate::schema::AggregateSchema;

/// Counts values by label.
pub(super) struct LabelCounter {
    labels: BTreeMap<String, String>,
    counts: BTreeMap<String, u64>,
    splits_arrays: bool,
}

impl LabelCounter {
    /// Labels are the aggregate's arguments: `{"true": "Changed", "false": "No Change", "noop": "Would Change"}`. In a noop request, the label
    /// `noop` replaces that of `true`.
    pub(super) fn new(aggregate: &AggregateSchema, noop: bool) -> Self {
        let labels =
            aggregate.label_options().filter(|(key, _)| !matches!(*key, "format" | "noop"));
        let mut labels: BTreeMap<String, String> =
            labels.map(|(value, label)| (value.to_owned(), label.to_owned())).collect();
        let noop_label = aggregate.label_options().find(|(key, _)| noop && *key == "noop");
        labels.extend(noop_label.map(|(_, label)| ("true".to_owned(), label.to_owned())));
        let splits_arrays = aggregate.function == AggregateFunction::Summary;
        Self { labels, counts: BTreeMap::new(), splits_arrays }
    }
}

impl AggregateFold for LabelCounter {
    fn add_value(&mut self, value: &Value) {
        if let Value::Array(items) = value
            && self.splits_arrays
        {
            return items.iter().for_each(|item| self.add_value(item));
        }
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let label = self.labels.get(&text).cloned().unwrap_or(text);
        let count = self.counts.entry(label).or_default();
        *count = count.saturating_add(1);
    }

    fn to_result(&self) -> SummaryResult {
        let mut rows: Vec<_> = self.counts.iter().map(|(label, n)| (label.clone(), *n)).collect();
        // The sort is stable, so equal counts keep the order of their labels.
        rows.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        SummaryResult::Rows(rows)
    }
}
