//! Sums up the performance data of all nodes by label. Pure.

use std::collections::{BTreeMap, BTreeSet};

use muster_contract::nrpe::parse_perfdata;

use super::report::NodeCheckResult;

/// The values of one label on all nodes.
#[derive(Debug, Clone, PartialEq)]
pub struct PerfSummary {
    /// The label. If nodes use different units, the unit is part of it.
    pub label: String,
    /// The unit.
    pub unit: String,
    /// Number of values.
    pub count: usize,
    /// The sum.
    pub sum: f64,
    /// The average.
    pub average: f64,
    /// The lowest value.
    pub min: f64,
    /// The highest value.
    pub max: f64,
}

/// Sums up the values by label and unit, sorted by label. Values that are not known are left out.
#[expect(clippy::cast_precision_loss, reason = "numbers of nodes are far below 2^52")]
pub fn summarize_perfdata(results: &[NodeCheckResult]) -> Vec<PerfSummary> {
    let mut values: BTreeMap<(String, String), Vec<f64>> = BTreeMap::new();
    for metric in results.iter().flat_map(|result| parse_perfdata(&result.perfdata)) {
        if let Some(value) = metric.value {
            values.entry((metric.label, metric.unit)).or_default().push(value);
        }
    }
    let mut units: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (label, unit) in values.keys() {
        units.entry(label.clone()).or_default().insert(unit.clone());
    }
    let summaries = values.into_iter().map(|((label, unit), values)| {
        let is_ambiguous = units.get(&label).is_some_and(|units| units.len() > 1);
        let sum: f64 = values.iter().sum();
        PerfSummary {
            label: if is_ambiguous && !unit.is_empty() { format!("{label}_{unit}") } else { label },
            unit,
            count: values.len(),
            sum,
            average: sum / values.len() as f64,
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    });
    summaries.collect()
}

#[cfg(test)]
mod tests {
    use muster_contract::nrpe::CheckState;
    use proptest::prelude::*;

    use super::{NodeCheckResult, PerfSummary, summarize_perfdata};

    fn result(perfdata: &str) -> NodeCheckResult {
        NodeCheckResult {
            node: "n".parse().unwrap(),
            state: CheckState::Ok,
            output: String::new(),
            long_output: String::new(),
            perfdata: perfdata.to_owned(),
            replied: true,
        }
    }

    fn summary(label: &str, unit: &str, values: &[f64]) -> PerfSummary {
        let sum: f64 = values.iter().sum();
        PerfSummary {
            label: label.to_owned(),
            unit: unit.to_owned(),
            count: values.len(),
            sum,
            average: sum / f64::from(u32::try_from(values.len()).unwrap()),
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }

    #[test]
    fn values_are_summed_by_label_and_unit() {
        let results = [
            result("load1=0.5;1;2 'my disk'=10MB"),
            result("load1=1.5 'my disk'=30MB used=1KB"),
            result("load1=U used=5 junk"),
        ];
        assert_eq!(
            summarize_perfdata(&results),
            [
                summary("load1", "", &[0.5, 1.5]),
                summary("my disk", "MB", &[10.0, 30.0]),
                summary("used", "", &[5.0]),
                summary("used_KB", "KB", &[1.0]),
            ]
        );
    }

    proptest! {
        #[test]
        fn average_is_between_the_extremes(values in prop::collection::vec(-1.0e6..1.0e6, 1..20)) {
            let results: Vec<_> = values.iter().map(|value| result(&format!("a={value}"))).collect();
            let found = summarize_perfdata(&results).remove(0);
            prop_assert_eq!(found.count, values.len());
            prop_assert!(found.min <= found.average + 1e-6 && found.average <= found.max + 1e-6);
        }
    }
}
