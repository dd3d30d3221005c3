//! Counts runs: how they ended, when, and how long they took.

use std::collections::BTreeMap;

use muster_contract::history::{
    HistoryStatisticsInput, HistoryStatisticsOutput, RunCounts, SLOWEST_RUNS, STATISTICS_PERIODS,
};
use muster_wire::identity::Identity;
use rusqlite::params_from_iter;

use super::database::HistoryIndex;
use super::error::IndexError;
use super::query::{Conditions, RUN_COLUMNS, read_run};

impl HistoryIndex {
    /// The runs that began in a time. `nodes`: only of these.
    pub fn statistics(
        &self,
        input: &HistoryStatisticsInput,
        nodes: Option<&[Identity]>,
    ) -> Result<HistoryStatisticsOutput, IndexError> {
        let mut conditions = Conditions::default();
        conditions.add_nodes(nodes);
        conditions.add_period("started", Some(input.since), Some(input.until));
        let (condition, periods) =
            (conditions.text(), u64::try_from(STATISTICS_PERIODS).unwrap_or(1));
        let (since, width) =
            (input.since, input.until.saturating_sub(input.since).div_ceil(periods).max(1));
        let reader = self.read();
        let nodes = reader.query_row(
            &format!("SELECT count(DISTINCT node) FROM run {condition}"),
            params_from_iter(conditions.values()),
            |row| row.get(0),
        )?;
        let mut output = HistoryStatisticsOutput {
            nodes,
            periods: vec![RunCounts::default(); STATISTICS_PERIODS],
            ..HistoryStatisticsOutput::default()
        };
        let mut counts = reader.prepare(&format!(
            "SELECT (started - {since}) / {width}, status, (ended - started) / 1000, count(*) FROM run {condition} GROUP BY 1, 2, 3"
        ))?;
        let mut found = counts.query(params_from_iter(conditions.values()))?;
        let mut durations: BTreeMap<u64, u64> = BTreeMap::new();
        while let Some(row) = found.next()? {
            let (period, status): (usize, String) = (row.get(0)?, row.get(1)?);
            let (seconds, runs): (Option<u64>, u64) = (row.get(2)?, row.get(3)?);
            let of = |name: &str| if status == name { runs } else { 0 };
            let [changed, failed, aborted] = [of("changed"), of("failed"), of("aborted")];
            if let Some(counts) = output.periods.get_mut(period) {
                counts.add(RunCounts { runs, changed, failed, aborted });
            }
            if let Some(seconds) = seconds.filter(|_| status != "aborted") {
                *durations.entry(seconds).or_default() += runs;
            }
        }
        (output.median, output.most) = (quantile(&durations, 50), quantile(&durations, 95));
        let and = if condition.is_empty() { "WHERE" } else { "AND" };
        let mut slowest = reader.prepare(&format!(
            "SELECT {RUN_COLUMNS} FROM run JOIN node ON node.id = run.node {condition} {and} ended IS NOT NULL AND status <> 'aborted'
             ORDER BY ended - started DESC LIMIT {SLOWEST_RUNS}"
        ))?;
        let found = slowest.query_map(params_from_iter(conditions.values()), read_run)?;
        output.slowest = found.collect::<Result<_, _>>()?;
        Ok(output)
    }
}

/// The smallest value that this many of 100 do not exceed.
fn quantile(counts: &BTreeMap<u64, u64>, percent: u64) -> Option<u64> {
    let total: u64 = counts.values().sum();
    let rank = (total * percent).div_ceil(100);
    let mut passed = 0;
    counts.iter().find_map(|(value, count)| {
        passed += count;
        (passed >= rank).then_some(*value)
    })
}
