//! Renders the result of a check: text of a Nagios plugin, metrics for Prometheus, or a document.
//!
//! Texts of nodes are not trusted: in the text of a plugin, control characters and `|`, which would begin performance data, are escaped.

use std::fmt::Write as _;

use muster_contract::nrpe::{CheckState, PerfMetric, parse_perfdata};
use muster_display::printable::escape_to_line;
use muster_operations::check::{
    CheckOutcome, CheckReport, NodeCheckResult, PerfSummary, summarize_perfdata,
};
use serde::Serialize;

/// Most bytes of the text: monitoring systems read 4 to 8 KB.
const MAX_TEXT_BYTES: usize = 4000;
/// Most characters of one node's output in the text.
const MAX_OUTPUT_CHARS: usize = 300;

#[derive(Debug, Clone, Copy, Default)]
pub struct CheckTextOptions {
    /// Whether `total` is the number of nodes that replied.
    pub only_replies: bool,
    /// Whether performance data of the nodes is summed up.
    pub perfdata: bool,
    /// Whether the text has all nodes, without a limit.
    pub all_nodes: bool,
}

pub fn render_check_problem(command: &str, problem: &str) -> String {
    let words: Vec<&str> = problem.split_whitespace().collect();
    format!("{}: UNKNOWN: {}\n", plugin_text(command), plugin_text(&words.join(" ")))
}

/// The text of a plugin: one line with counts, then the nodes that are not OK.
pub fn render_check_text(report: &CheckReport, options: CheckTextOptions) -> String {
    let command = plugin_text(&report.command);
    if report.results.is_empty() {
        return format!("{command}: UNKNOWN: no nodes found\n");
    }
    let [ok, warning, critical, unknown] = CheckState::ALL.map(|state| report.count(state));
    let total = if options.only_replies { report.reply_count() } else { report.results.len() };
    let mut text = format!(
        "{command}: OK: {ok} WARNING: {warning} CRITICAL: {critical} UNKNOWN: {unknown}\
         |total={total} ok={ok} warn={warning} crit={critical} unknown={unknown} checktime={:.6}",
        report.took.as_secs_f64()
    );
    if options.perfdata {
        for metric in summarize_perfdata(&report.results).iter().flat_map(summary_metrics) {
            let _ = write!(text, " {}", plugin_text(&metric.to_string()));
        }
    }
    text.push('\n');
    let limit = if options.all_nodes { usize::MAX } else { MAX_TEXT_BYTES };
    add_nodes(&mut text, report, limit);
    text
}

/// Adds the nodes that are not OK, the worst first.
fn add_nodes(text: &mut String, report: &CheckReport, limit: usize) {
    let mut left_out = 0_usize;
    for state in [CheckState::Critical, CheckState::Warning, CheckState::Unknown] {
        let mut heading = Some(format!("{}:\n", state.as_str()));
        for result in report.results.iter().filter(|result| result.state == state) {
            let output: String = result.output.chars().take(MAX_OUTPUT_CHARS).collect();
            let line = format!("  {}: {}\n", result.node, plugin_text(&output));
            let length = heading.as_ref().map_or(0, String::len) + line.len();
            if left_out > 0 || text.len() + length > limit {
                left_out += 1;
                continue;
            }
            text.extend(heading.take());
            text.push_str(&line);
        }
    }
    if left_out > 0 {
        let _ = writeln!(text, "{left_out} more; -v or -j shows all");
    }
}

/// A text on one line that does not begin performance data.
fn plugin_text(text: &str) -> String {
    escape_to_line(text).replace('|', "\\x7c")
}

/// The values of a summary as performance data.
fn summary_metrics(summary: &PerfSummary) -> [PerfMetric; 4] {
    let values = [
        ("sum", summary.sum),
        ("avg", summary.average),
        ("min", summary.min),
        ("max", summary.max),
    ];
    values.map(|(name, value)| PerfMetric {
        label: format!("{}_{name}", summary.label),
        value: Some(value),
        unit: summary.unit.clone(),
        warning: None,
        critical: None,
        min: None,
        max: None,
    })
}

/// The metrics of all nodes in the text format of Prometheus.
pub fn render_check_metrics(report: &CheckReport, state: CheckState) -> String {
    let check = label_value(&report.command);
    let mut text = String::new();
    let mut family = |name: &str, help: &str, samples: Vec<(String, String)>| {
        let _ = writeln!(text, "# HELP muster_check_{name} {help}");
        let _ = writeln!(text, "# TYPE muster_check_{name} gauge");
        for (labels, value) in samples {
            let _ = writeln!(text, "muster_check_{name}{{check=\"{check}\"{labels}}} {value}");
        }
    };
    let code = |state: CheckState| state.exit_code().to_string();
    let nodes = |sample: fn(&NodeCheckResult) -> String| {
        let labels =
            |result: &NodeCheckResult| format!(",node=\"{}\"", label_value(result.node.as_str()));
        report.results.iter().map(|result| (labels(result), sample(result))).collect::<Vec<_>>()
    };
    family(
        "state",
        "State of the check on all nodes: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.",
        vec![(String::new(), code(state))],
    );
    let counts = CheckState::ALL.map(|state| {
        let labels = format!(",state=\"{}\"", state.as_str().to_ascii_lowercase());
        (labels, report.count(state).to_string())
    });
    family("nodes", "Number of nodes in a state.", counts.into());
    let took = format!("{:.6}", report.took.as_secs_f64());
    family("duration_seconds", "Time for discovery and replies.", vec![(String::new(), took)]);
    family(
        "node_state",
        "State of the check on a node: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.",
        nodes(|result| result.state.exit_code().to_string()),
    );
    family(
        "node_replied",
        "Whether the node replied.",
        nodes(|result| u8::from(result.replied).to_string()),
    );
    family("perfdata", "Performance data of a node.", perfdata_samples(report));
    text
}

/// One sample for each node, label and unit. A label that a node sends twice has its first value.
fn perfdata_samples(report: &CheckReport) -> Vec<(String, String)> {
    let mut samples = Vec::new();
    for result in &report.results {
        let mut seen = std::collections::BTreeSet::new();
        for metric in parse_perfdata(&result.perfdata) {
            let Some(value) = metric.value else { continue };
            let labels = format!(
                ",node=\"{}\",label=\"{}\",unit=\"{}\"",
                label_value(result.node.as_str()),
                label_value(&metric.label),
                label_value(&metric.unit)
            );
            if seen.insert(labels.clone()) {
                samples.push((labels, value.to_string()));
            }
        }
    }
    samples
}

/// A text as value of a label: escaped as the format requires, without characters that a terminal interprets.
fn label_value(text: &str) -> String {
    escape_to_line(text).replace('\\', "\\\\").replace('"', "\\\"")
}

/// The document of `rpc check -j`.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct CheckDocument<'a> {
    schema: &'static str,
    check: &'a str,
    /// The state of all nodes together, with the options of the command.
    state: CheckState,
    /// Why there are no results.
    problem: Option<&'a str>,
    /// Whether the results come from the cache.
    cached: bool,
    total: usize,
    ok: usize,
    warning: usize,
    critical: usize,
    unknown: usize,
    /// Time for discovery and replies.
    check_seconds: f64,
    nodes: Vec<CheckNodeRow<'a>>,
    perfdata: Vec<PerfSummaryRow>,
}

/// One node of the document.
#[derive(Debug, Serialize, schemars::JsonSchema)]
struct CheckNodeRow<'a> {
    node: &'a str,
    state: CheckState,
    output: &'a str,
    long_output: &'a str,
    perfdata: Vec<PerfMetric>,
    /// Whether the node replied.
    replied: bool,
}

/// The values of one label on all nodes.
#[derive(Debug, Serialize, schemars::JsonSchema)]
struct PerfSummaryRow {
    label: String,
    unit: String,
    count: usize,
    sum: f64,
    average: f64,
    min: f64,
    max: f64,
}

impl<'a> CheckDocument<'a> {
    pub fn new(check: &'a str, outcome: &'a CheckOutcome, state: CheckState, cached: bool) -> Self {
        let (report, problem) = match outcome {
            CheckOutcome::Report(report) => (Some(report), None),
            CheckOutcome::Failed(problem) => (None, Some(problem.as_str())),
        };
        let results = report.map_or(&[][..], |report| &report.results);
        let count = |state| report.map_or(0, |report| report.count(state));
        Self {
            schema: "muster.check.v1",
            check,
            state,
            problem,
            cached,
            total: results.len(),
            ok: count(CheckState::Ok),
            warning: count(CheckState::Warning),
            critical: count(CheckState::Critical),
            unknown: count(CheckState::Unknown),
            check_seconds: report.map_or(0.0, |report| report.took.as_secs_f64()),
            nodes: results.iter().map(CheckNodeRow::new).collect(),
            perfdata: summarize_perfdata(results).into_iter().map(PerfSummaryRow::from).collect(),
        }
    }
}

impl<'a> CheckNodeRow<'a> {
    fn new(result: &'a NodeCheckResult) -> Self {
        Self {
            node: result.node.as_str(),
            state: result.state,
            output: &result.output,
            long_output: &result.long_output,
            perfdata: parse_perfdata(&result.perfdata),
            replied: result.replied,
        }
    }
}

impl From<PerfSummary> for PerfSummaryRow {
    fn from(summary: PerfSummary) -> Self {
        let PerfSummary { label, unit, count, sum, average, min, max } = summary;
        Self { label, unit, count, sum, average, min, max }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use muster_contract::nrpe::{CheckState, parse_perfdata};
    use muster_operations::check::{CheckReport, NodeCheckResult};

    use super::{
        CheckTextOptions, MAX_TEXT_BYTES, render_check_metrics, render_check_problem,
        render_check_text,
    };

    fn result(node: &str, state: CheckState, output: &str, perfdata: &str) -> NodeCheckResult {
        NodeCheckResult {
            node: node.parse().unwrap(),
            state,
            output: output.to_owned(),
            long_output: String::new(),
            perfdata: perfdata.to_owned(),
            replied: output != "no reply",
        }
    }

    fn report(results: Vec<NodeCheckResult>) -> CheckReport {
        CheckReport {
            command: "check_load".to_owned(),
            results,
            took: Duration::from_micros(612_054),
        }
    }

    #[test]
    fn first_line_is_that_of_check_mc_nrpe() {
        let report = report(vec![result("a", CheckState::Ok, "OK", "load1=0.5")]);
        assert_eq!(
            render_check_text(&report, CheckTextOptions::default()),
            "check_load: OK: 1 WARNING: 0 CRITICAL: 0 UNKNOWN: 0|total=1 ok=1 warn=0 crit=0 unknown=0 checktime=0.612054\n"
        );
    }

    #[test]
    fn nodes_that_are_not_ok_follow_the_worst_first() {
        let report = report(vec![
            result("a", CheckState::Ok, "OK", "load1=1"),
            result("b", CheckState::Unknown, "no reply", ""),
            result("c", CheckState::Warning, "high", "load1=3;2"),
            result("d", CheckState::Critical, "\x1b[2Jgone\nfor |evil=1", "'a|b'=1"),
        ]);
        let options = CheckTextOptions { perfdata: true, ..CheckTextOptions::default() };
        assert_eq!(
            render_check_text(&report, options),
            "check_load: OK: 1 WARNING: 1 CRITICAL: 1 UNKNOWN: 1|total=4 ok=1 warn=1 crit=1 unknown=1 checktime=0.612054 \
             a\\x7cb_sum=1 a\\x7cb_avg=1 a\\x7cb_min=1 a\\x7cb_max=1 load1_sum=4 load1_avg=2 load1_min=1 load1_max=3\n\
             CRITICAL:\n  d: \\x1b[2Jgone\\nfor \\x7cevil=1\nWARNING:\n  c: high\nUNKNOWN:\n  b: no reply\n"
        );
        let options = CheckTextOptions { only_replies: true, ..CheckTextOptions::default() };
        let text = render_check_text(&report, options);
        assert!(text.contains("|total=3 ok=1 warn=1 crit=1 unknown=1 "), "{text}");
    }

    #[test]
    fn text_is_limited_unless_all_nodes_are_wanted() {
        let results = (0..500).map(|number| {
            result(&format!("n{number:03}"), CheckState::Critical, "x".repeat(400).as_str(), "")
        });
        let report = report(results.collect());
        let text = render_check_text(&report, CheckTextOptions::default());
        assert!(text.len() <= MAX_TEXT_BYTES + 50 && text.contains(" more; -v or -j"), "{text}");
        let all = CheckTextOptions { all_nodes: true, ..CheckTextOptions::default() };
        assert_eq!(render_check_text(&report, all).lines().count(), 502);
    }

    #[test]
    fn problems_are_one_line() {
        assert_eq!(
            render_check_text(&report(Vec::new()), CheckTextOptions::default()),
            "check_load: UNKNOWN: no nodes found\n"
        );
        assert_eq!(
            render_check_problem("x|\x07", "no\n  broker | at \x1b[2J"),
            "x\\x7c\\x07: UNKNOWN: no broker \\x7c at \\x1b[2J\n"
        );
    }

    #[test]
    fn summed_perfdata_fits_the_grammar() {
        let report = report(vec![result("a", CheckState::Ok, "OK", "'my disk'=1.5MB t=3s")]);
        let options = CheckTextOptions { perfdata: true, ..CheckTextOptions::default() };
        let text = render_check_text(&report, options);
        let metrics = parse_perfdata(text.trim_end().split_once('|').unwrap().1);
        assert_eq!(metrics.len(), 6 + 8);
        assert!(metrics.iter().any(|metric| metric.label == "my disk_avg" && metric.unit == "MB"));
    }

    #[test]
    fn metrics_are_those_of_prometheus() {
        let report = report(vec![
            result("a", CheckState::Ok, "OK", "'x\"y\\z'=1.5MB 'x\"y\\z'=2MB u=U"),
            result("b", CheckState::Unknown, "no reply", ""),
        ]);
        insta::assert_snapshot!(render_check_metrics(&report, CheckState::Unknown));
    }
}
