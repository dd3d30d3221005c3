//! Renders counts of runs: a bar for each period, durations, and the runs that took longest.

use muster_base::format_millis;
use muster_contract::history::{HistoryStatisticsOutput, RunCounts};
use muster_display::table::Table;
use muster_display::time::format_time_millis;
use muster_display::{TextPage, count_text, node_count_text};
use muster_wire::Millis;

/// Columns of the longest bar.
const BAR_WIDTH: u64 = 40;

pub fn render_statistics(
    found: &HistoryStatisticsOutput,
    (since, until): (Millis, Millis),
    width: usize,
) -> String {
    let mut all = RunCounts::default();
    found.periods.iter().for_each(|period| all.add(*period));
    if all.runs == 0 {
        return "no runs in this time\n".to_owned();
    }
    let mut page = TextPage::default();
    let runs = count_text(usize::try_from(all.runs).unwrap_or(usize::MAX), "run", "runs");
    let nodes = node_count_text(usize::try_from(found.nodes).unwrap_or(usize::MAX));
    let RunCounts { changed, failed, aborted, .. } = all;
    page.push_line(format_args!(
        "{runs} of {nodes}: {changed} changed something, {failed} failed, {aborted} were cut off"
    ));
    if let (Some(median), Some(most)) = (found.median, found.most) {
        let [median, most] = [median, most].map(|seconds| format_millis(seconds * 1000));
        page.push_line(format_args!("half ended within {median}, 95 of 100 within {most}"));
    }
    page.push_gap();
    page.push_text(render_periods(found, (since, until), width));
    if !found.slowest.is_empty() {
        let mut table = Table::new(["SLOWEST RUNS", "NODE", "TOOK", "STATUS", "RUN"]);
        for run in &found.slowest {
            let took = run.ended.unwrap_or(run.started).saturating_sub(run.started);
            table.row([
                format_time_millis(run.started),
                run.node.clone(),
                format_millis(took),
                run.status.line().into_owned(),
                run.run.clone(),
            ]);
        }
        page.push_gap();
        page.push_text(table.render(width));
    }
    page.into_text()
}

fn render_periods(
    found: &HistoryStatisticsOutput,
    (since, until): (Millis, Millis),
    width: usize,
) -> String {
    let periods = u64::try_from(found.periods.len()).unwrap_or(1).max(1);
    let length = until.saturating_sub(since).div_ceil(periods);
    let most = found.periods.iter().map(|period| period.runs).max().unwrap_or_default().max(1);
    let mut table = Table::new(["FROM", "RUNS", "CHANGED", "FAILED", "CUT OFF", ""]);
    for (number, period) in (0..).zip(&found.periods) {
        let bar = usize::try_from((period.runs * BAR_WIDTH).div_ceil(most)).unwrap_or_default();
        table
            .row([
                format_time_millis(since + number * length),
                period.runs.to_string(),
                period.changed.to_string(),
                period.failed.to_string(),
                period.aborted.to_string(),
                "#".repeat(bar),
            ])
            .failed_if(period.failed + period.aborted > 0);
    }
    table.render(width)
}
