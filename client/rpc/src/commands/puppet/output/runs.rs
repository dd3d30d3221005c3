//! Renders Puppet runs: log lines while they run, then the outcomes and the check of the concurrency limit.

use std::collections::BTreeSet;

use muster_base::format_duration;
use muster_calls::runs::{ConcurrencyStats, RunOutcome};
use muster_client::{PuppetRunsReport, RunLogLine};
use muster_display::printer::{BAD, GOOD, STRONG};
use muster_display::time::format_time_millis;
use muster_display::{TextPage, count_text, list_first_nodes, node_count_text};
use muster_wire::Millis;
use muster_wire::identity::Identity;

/// Maximum node names beside a count.
const MAX_NAMED_NODES: usize = 4;

/// A log line, prefixed with its time.
pub fn format_log_line(now: Millis, text: &str) -> String {
    format!("{} {text}", format_time_millis(now))
}

/// Describes an event in the wording of `mco puppet runall`.
pub fn describe_log_line(line: &RunLogLine) -> String {
    match line {
        RunLogLine::Running(node, count) => format!("Running {node}, concurrency is {count}"),
        RunLogLine::Scheduled(node, status) if status == "OK" => {
            format!("{node} schedule status: {GOOD}OK{GOOD:#}")
        }
        RunLogLine::Scheduled(node, status) => {
            format!("{node} schedule status: {BAD}{status}{BAD:#}")
        }
        RunLogLine::Waiting(count) => {
            format!("Currently {} running, waiting", node_count_text(*count))
        }
        RunLogLine::Ended(node, run) => describe_run_end(node, &run.outcome),
    }
}

pub fn describe_run_end(node: &Identity, outcome: &RunOutcome) -> String {
    let RunOutcome { ok, class, message, .. } = outcome;
    let style = if *ok { GOOD } else { BAD };
    let attached_note = if outcome.attached && outcome.permit_interval.is_some() {
        " (started by an earlier request)"
    } else {
        ""
    };
    let message = message.block();
    format!("{node}: {style}{class}{style:#}: {message}{attached_note}")
}

/// Renders the outcomes, the durations, and the concurrency measured from the nodes' times.
pub fn render_runs_summary(runs: &PuppetRunsReport) -> String {
    let mut page = TextPage::default();
    let mut rows: Vec<(String, bool, String, usize)> = Vec::new();
    for (class, nodes) in runs.nodes_by_class() {
        let ok = nodes.iter().all(|node| is_ok(runs, node));
        let names = if ok { String::new() } else { list_nodes(nodes.iter().copied()) };
        rows.push((class.to_owned(), ok, names, nodes.len()));
    }
    for (title, ok, nodes) in [
        ("skipped: disabled", false, runs.disabled.keys().collect::<Vec<_>>()),
        ("no request sent", false, runs.not_asked.iter().collect()),
    ] {
        if !nodes.is_empty() {
            rows.push((title.to_owned(), ok, list_nodes(nodes.iter().copied()), nodes.len()));
        }
    }
    let width = rows.iter().map(|(title, ..)| title.len()).max().unwrap_or(0);
    let width = width.max("RESULT".len());
    page.push_line(format_args!("{STRONG}{:width$}  {:>5}{STRONG:#}", "RESULT", "NODES"));
    for (title, ok, names, count) in rows {
        let style = if ok { GOOD } else { BAD };
        page.push_line(format_args!("{style}{title:width$}{style:#}  {count:>5}  {names}"));
    }
    page.push_gap();
    page.push_line(describe_times(runs));
    if let Some(stats) = runs.concurrency_stats() {
        page.push_line(describe_concurrency(runs.limit, &stats));
    }
    if let skewed @ 1.. = runs.skewed_clock_count() {
        let nodes = node_count_text(skewed);
        page.push_line(format_args!(
            "The times of {nodes} were corrected: their clocks differ by more than a second."
        ));
    }
    page.into_text()
}

fn is_ok(runs: &PuppetRunsReport, node: &Identity) -> bool {
    runs.ended.get(node).is_some_and(|ended| ended.outcome.ok)
}

fn list_nodes<'a>(nodes: impl IntoIterator<Item = &'a Identity>) -> String {
    let nodes: BTreeSet<Identity> = nodes.into_iter().cloned().collect();
    list_first_nodes(&nodes, MAX_NAMED_NODES, ", ")
}

fn describe_times(runs: &PuppetRunsReport) -> String {
    let took = format_duration(runs.took);
    let Some(stats) = runs.concurrency_stats() else {
        return format!("No runs, in {took}.");
    };
    let count = count_text(stats.runs, "run", "runs");
    let (work, longest) = (format_duration(stats.work), format_duration(stats.longest));
    format!("{count} in {took}: together they took {work}, the longest {longest}.")
}

/// The evidence is what nodes measured of all runs of the pool, not an observation of this process.
fn describe_concurrency(limit: Option<usize>, stats: &ConcurrencyStats) -> String {
    let highest = stats.highest;
    let most = count_text(highest, "run", "runs");
    let observation = format!("nodes measured at most {most} at once, of all runs");
    match limit {
        None => format!("Nodes measured at most {most} at once, of all runs."),
        Some(limit) if highest <= limit => {
            format!("{GOOD}The limit of {limit} was kept{GOOD:#}: {observation}.")
        }
        Some(limit) => format!("{BAD}The limit of {limit} was exceeded{BAD:#}: {observation}."),
    }
}

#[cfg(test)]
mod tests {
    use muster_calls::RolloutStopReason;
    use muster_calls::runs::RunOutcome;
    use muster_display::json::to_safe_line;
    use muster_display::printable::styled_line;

    use super::{describe_log_line, format_log_line, render_runs_summary};
    use crate::report::testing::{ended, is_within_width, outcome, plain, ran, runs};
    use muster_client::RunLogLine;
    use muster_client::documents::{PuppetRunDocument, PuppetRunsJsonLine};

    #[test]
    fn log_lines_match_the_format_of_mco() {
        let node = || "dev1.example.net".parse().unwrap();
        let refused =
            outcome(1, serde_json::json!({"class": "locked", "error": "another run\n\u{1b}[2J"}));
        let lines = [
            RunLogLine::Running(node(), 2),
            RunLogLine::Scheduled(node(), "OK".to_owned()),
            RunLogLine::Scheduled(node(), "locked".to_owned()),
            RunLogLine::Waiting(3),
            RunLogLine::Waiting(1),
            RunLogLine::Ended(node(), Box::new(ended(ran("changed", 0, 14)))),
            RunLogLine::Ended(node(), Box::new(ended(refused))),
        ];
        let lines = lines
            .iter()
            .map(|told| styled_line(format_log_line(1_767_225_600_017, &describe_log_line(told))));
        insta::assert_snapshot!(plain(&lines.collect::<Vec<_>>().join("\n")), @r"
        2026-01-01 00:00:00Z Running dev1.example.net, concurrency is 2
        2026-01-01 00:00:00Z dev1.example.net schedule status: OK
        2026-01-01 00:00:00Z dev1.example.net schedule status: locked
        2026-01-01 00:00:00Z Currently 3 nodes running, waiting
        2026-01-01 00:00:00Z Currently 1 node running, waiting
        2026-01-01 00:00:00Z dev1.example.net: changed: 3 of 61 resources changed
        2026-01-01 00:00:00Z dev1.example.net: locked: another run\n\x1b[2J
        ");
    }

    #[test]
    fn renders_summaries_of_good_failed_and_missing_runs() {
        let good = runs(vec![
            ("web1", ran("clean", 0, 10)),
            ("web2", ran("changed", 5, 35)),
            ("web3", ran("clean", 10, 20)),
        ]);
        let mut bad = runs(vec![
            ("web1", ran("clean", 0, 10)),
            ("web2", ran("changed", 1, 35)),
            ("web3", ran("failed+changed", 2, 20)),
            ("web4", outcome(1, serde_json::json!({"class": "locked"}))),
            ("web5", RunOutcome::without_reply("no_answer", "silent")),
        ]);
        bad.disabled.insert("db1".parse().unwrap(), "moving".into());
        bad.not_asked = (1..9).map(|n| format!("mail{n}").parse().unwrap()).collect();
        bad.halt = Some(RolloutStopReason::Failures { failed: 3, allowed: 2 });
        let mut without_runs =
            runs(vec![("web5", RunOutcome::without_reply("not_connected", "gone"))]);
        without_runs.limit = None;
        let texts = [&good, &bad, &without_runs].map(|runs| plain(&render_runs_summary(runs)));
        assert!(texts.iter().all(|text| is_within_width(text)), "{texts:#?}");
        insta::assert_snapshot!("puppet_runs", texts.join("\n---\n"));
        // The summary omits the limit if no run started.
        let mut busy = runs(vec![("web1", outcome(1, serde_json::json!({"class": "locked"})))]);
        busy.limit = Some(1);
        let told = plain(&render_runs_summary(&busy));
        assert!(told.contains("No runs") && !told.contains("limit of"), "{told}");
    }

    #[test]
    fn renders_every_kind_of_json_line() {
        let runs = runs(vec![
            ("web1", ran("changed", 0, 10)),
            ("web2", outcome(1, serde_json::json!({"class": "disabled", "error": "no\n\u{1b}"}))),
        ]);
        let nodes: Vec<_> = runs.ended.keys().collect();
        let (node, ended) = runs.ended.first_key_value().unwrap();
        let lines = [
            PuppetRunsJsonLine::found(nodes, &runs),
            PuppetRunsJsonLine::Running { node, concurrency: 1 },
            PuppetRunsJsonLine::Ended(PuppetRunDocument::new(node, ended)),
            PuppetRunsJsonLine::summary(&runs),
            PuppetRunsJsonLine::Error { error: "no".to_owned() },
        ];
        let lines: Vec<String> = lines.iter().map(|one| to_safe_line(one).unwrap()).collect();
        assert!(!lines.concat().contains(char::is_control));
        insta::assert_snapshot!("puppet_runs_lines", lines.join("\n"));
    }
}
