//! Rows of scheduled checks, in the documents and tables of several commands. Texts of nodes are escaped.

use std::time::Duration;

use muster_base::format_duration;
use muster_contract::nrpe::CheckState;
use muster_display::table::Table;
use muster_operations::check::FleetCheck;
use serde::Serialize;

/// A check of the document.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate property")]
pub struct FleetCheckRow<'a> {
    pub node: &'a str,
    pub check: &'a str,
    pub state: Option<CheckState>,
    /// Since when, in seconds since the epoch.
    since: Option<u64>,
    attempt: u32,
    max_attempts: u32,
    acknowledged: bool,
    maintenance: bool,
    flapping: bool,
    overdue: bool,
    node_missing: bool,
    output: &'a str,
    perfdata: &'a str,
}

impl<'a> FleetCheckRow<'a> {
    pub fn new(check: &'a FleetCheck) -> Self {
        Self {
            node: check.node.as_str(),
            check: &check.check,
            state: check.state,
            since: check.since,
            attempt: check.attempt,
            max_attempts: check.max_attempts,
            acknowledged: check.acknowledged,
            maintenance: check.maintenance,
            flapping: check.flapping,
            overdue: check.overdue,
            node_missing: check.node_missing,
            output: &check.output,
            perfdata: &check.perfdata,
        }
    }

    fn state_text(&self) -> &'static str {
        self.state.map_or("NOT CHECKED", CheckState::as_str)
    }

    fn flags_text(&self) -> String {
        let flags = [
            (self.acknowledged, "acknowledged"),
            (self.maintenance, "maintenance"),
            (self.flapping, "flapping"),
            (self.overdue, "late"),
            (self.node_missing, "node missing"),
        ];
        let set: Vec<&str> =
            flags.into_iter().filter_map(|(is_set, name)| is_set.then_some(name)).collect();
        if set.is_empty() { "-".to_owned() } else { set.join(", ") }
    }

    fn table_cells(&self, now: u64) -> [String; 7] {
        let since = self.since.map_or("-".to_owned(), |since| {
            format_duration(Duration::from_secs(now.saturating_sub(since)))
        });
        [
            self.node.to_owned(),
            self.check.to_owned(),
            self.state_text().to_owned(),
            since,
            format!("{}/{}", self.attempt, self.max_attempts),
            self.flags_text(),
            self.output.to_owned(),
        ]
    }
}

/// A table of checks at this time, in seconds since the epoch.
pub fn checks_table(rows: &[FleetCheckRow<'_>], now: u64) -> Table {
    let heading = ["NODE", "CHECK", "STATE", "SINCE", "TRIES", "FLAGS", "OUTPUT"];
    let mut table = Table::new(heading);
    for row in rows {
        table.row(row.table_cells(now)).failed_if(row.state == Some(CheckState::Critical));
    }
    table
}
