//! Renders the distribution of figures over nodes' last runs: the distributions of `mco puppet summary`.

use std::collections::BTreeMap;

use muster_client::RequestReport;
use muster_contract::puppet::{LastRunSummaryOutput, PuppetRunClass};
use muster_display::spark::{BAR_COUNT, count_buckets, finite_bounds, render_spark_bars};
use muster_display::{TextPage, node_count_text};
use muster_wire::identity::Identity;
use serde::Serialize;

use crate::report::request::balance_line;

/// A figure: its output, its title, and how it is read.
type RunFigure = (&'static str, &'static str, fn(&LastRunSummaryOutput) -> Option<f64>);

const FIGURES: [RunFigure; 8] = [
    ("total_resources", "Total resources", |run| counter(run.total_resources)),
    ("out_of_sync_resources", "Out Of Sync resources", |run| counter(run.out_of_sync_resources)),
    ("failed_resources", "Failed resources", |run| counter(run.failed_resources)),
    ("changed_resources", "Changed resources", |run| counter(run.changed_resources)),
    ("corrected_resources", "Corrected resources", |run| counter(run.corrected_resources)),
    ("config_retrieval_time", "Config Retrieval time (seconds)", |run| run.config_retrieval_time),
    ("total_time", "Total run-time (seconds)", |run| run.total_time),
    ("since_lastrun", "Time since last run (seconds)", |run| counter(run.since_lastrun)),
];

#[expect(clippy::cast_precision_loss, reason = "counters and seconds are far below 2^53")]
fn counter(count: Option<u64>) -> Option<f64> {
    count.map(|count| count as f64)
}

/// Distribution of one figure.
#[derive(Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct FigureDistribution {
    /// Number of nodes that reported it.
    count: usize,
    min: Option<f64>,
    max: Option<f64>,
    mean: Option<f64>,
    /// Number of nodes in each of this many equal intervals between minimum and maximum.
    buckets: [usize; BAR_COUNT],
}

impl FigureDistribution {
    fn from_numbers(numbers: &[f64]) -> Self {
        let bounds = finite_bounds(numbers);
        let count = numbers.len();
        let sum: f64 = numbers.iter().sum();
        Self {
            count,
            min: bounds.map(|(min, _)| min),
            max: bounds.map(|(_, max)| max),
            mean: bounds.map(|_| sum / u32::try_from(count).map_or(f64::INFINITY, f64::from)),
            buckets: count_buckets(numbers),
        }
    }
}

/// Statistics of the last runs.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct LastRunsSummary {
    /// Number of nodes that replied.
    nodes: usize,
    /// By figure.
    distributions: BTreeMap<&'static str, FigureDistribution>,
    /// Number of runs by outcome class.
    classes: BTreeMap<String, usize>,
    /// Nodes whose last run failed as a whole, for example without a catalog.
    failed_runs: Vec<Identity>,
}

impl LastRunsSummary {
    /// Evaluates successful replies to `puppet last_run_summary`.
    pub fn from_report(report: &RequestReport) -> Self {
        let mut numbers = FIGURES.map(|_| Vec::new());
        let (mut nodes, mut classes, mut failed_runs) = (0, BTreeMap::new(), Vec::new());
        for reply in report.successes() {
            let output: LastRunSummaryOutput = reply.typed_outputs();
            nodes += 1;
            for (numbers, (_, _, figure)) in numbers.iter_mut().zip(FIGURES) {
                numbers.extend(figure(&output).filter(|number| number.is_finite()));
            }
            let class = output.class.as_ref().map(PuppetRunClass::as_str);
            if let Some(class) = class.filter(|class| !class.is_empty()) {
                *classes.entry(class.to_owned()).or_default() += 1;
            }
            if output.failed_run {
                failed_runs.push(reply.node.clone());
            }
        }
        failed_runs.sort();
        let figures = FIGURES.iter().zip(&numbers);
        let figures = figures
            .map(|((figure, ..), numbers)| (*figure, FigureDistribution::from_numbers(numbers)));
        Self { nodes, distributions: figures.collect(), classes, failed_runs }
    }

    pub fn render_text(&self, report: &RequestReport, utf8: bool) -> String {
        let mut page = TextPage::default();
        let nodes = node_count_text(self.nodes);
        page.push_heading(format_args!("Summary statistics for {nodes}:"));
        for (figure, title, _) in FIGURES {
            let Some(distribution) = self.distributions.get(figure) else {
                continue;
            };
            let (Some(min), Some(max)) = (distribution.min, distribution.max) else {
                page.push_fields(33, [(title, "no data")]);
                continue;
            };
            let bars = render_spark_bars(&distribution.buckets, utf8);
            let (min, max) = (format_short(min), format_short(max));
            page.push_fields(33, [(title, format_args!("{bars}  min: {min:<6} max: {max}"))]);
        }
        page.push_gap();
        if !self.classes.is_empty() {
            page.push_heading("Outcomes:");
            page.push_fields(33, &self.classes);
            page.push_gap();
        }
        page.push_text(balance_line(report));
        page.into_text()
    }
}

/// Formats a number in few characters: `12`, `1.9`, `1.3k`, `2.5M`.
fn format_short(number: f64) -> String {
    let (number, unit) = match number.abs() {
        0.0..1000.0 => (number, ""),
        1000.0..1_000_000.0 => (number / 1000.0, "k"),
        _ => (number / 1_000_000.0, "M"),
    };
    format!("{number:.1}{unit}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::LastRunsSummary;
    use crate::report::testing::is_within_width;
    use crate::report::testing::{plain, reply, report};

    #[test]
    fn renders_distributions_in_utf8_and_ascii() {
        let ran = |node: &str, total: u32, took: f64, class: &str| {
            let data = json!({
                "total_resources": total, "out_of_sync_resources": 0, "failed_resources": u8::from(class == "failed"), "changed_resources": total / 60,
                "config_retrieval_time": took / 8.0, "total_time": took, "since_lastrun": total * 20, "class": class,
                "failed_run": class == "compile_failed",
            });
            reply(node, 0, "OK", data)
        };
        let report = report(
            "puppet",
            "last_run_summary",
            vec![
                ran("web1.example.net", 61, 14.2, "changed"),
                ran("web2.example.net", 61, 13.9, "clean"),
                ran("web3.example.net", 155, 40.0, "failed"),
                ran("db1.example.net", 93, 150.3, "clean"),
                ran("db2.example.net", 0, 0.0, "compile_failed"),
            ],
        );
        let summary = LastRunsSummary::from_report(&report);
        let [bars, ascii] = [true, false].map(|utf8| plain(&summary.render_text(&report, utf8)));
        assert!(ascii.is_ascii() && is_within_width(&bars), "{bars}");
        insta::assert_snapshot!("puppet_summary", format!("{bars}\n{ascii}"));
    }
}
