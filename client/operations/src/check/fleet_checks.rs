//! The scheduled checks of many nodes: from the directory, or from the nodes themselves.

use std::collections::BTreeSet;

use muster_client::{
    FleetConnection, FleetRequestError, NodeListOptions, RequestReport, TargetSelection,
    list_registered,
};
use muster_contract::directory::DirectoryNodeRow;
use muster_contract::nrpe::{
    CHECKS_STATE_NAME, CheckCounts, CheckState, RecordedCheck, RecordedChecks, ScheduledCheckRow,
    ScheduledChecksOutput, is_check_name,
};
use muster_wire::identity::Identity;
use serde::Serialize;
use serde_json::Value;

/// A scheduled check of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate property")]
pub struct FleetCheck {
    /// The node.
    pub node: Identity,
    /// The check.
    pub check: String,
    /// The hard state; absent while it is not known.
    pub state: Option<CheckState>,
    /// Since when, in seconds since the epoch.
    pub since: Option<u64>,
    /// Number of the last result among those that decide. The directory knows hard states only.
    pub attempt: u32,
    /// How many results decide.
    pub max_attempts: u32,
    /// Whether the problem is acknowledged.
    pub acknowledged: bool,
    /// Whether the check or the node is in maintenance.
    pub maintenance: bool,
    /// Whether it flaps.
    pub flapping: bool,
    /// Whether it has not run for too long.
    pub overdue: bool,
    /// Whether the node has sent no heartbeat for two intervals, so that the state may be old.
    pub node_missing: bool,
    /// The output: of the last result from the node itself, and of the last hard change from the directory.
    pub output: String,
    /// The performance data of the last result; from the node itself only.
    pub perfdata: String,
}

/// The checks of all nodes that match.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FleetCheckList {
    /// The checks, by node and name.
    pub checks: Vec<FleetCheck>,
    /// Nodes that are missing, according to the directory, or did not reply.
    pub missing: BTreeSet<Identity>,
    /// Checks that are not listed, because records have a limit.
    pub omitted: usize,
    /// Whether the answer is up to date.
    pub current: bool,
}

impl FleetCheck {
    /// Whether it needs attention: a problem, or a check that does not run.
    pub fn is_problem(&self) -> bool {
        self.state.is_some_and(|state| state != CheckState::Ok) || self.overdue || self.node_missing
    }

    /// Whether the problem is known: it is acknowledged or in maintenance.
    pub fn is_handled(&self) -> bool {
        self.acknowledged || self.maintenance
    }

    /// The state that a monitoring system should show: UNKNOWN if it may be old.
    pub fn effective_state(&self) -> Option<CheckState> {
        if self.node_missing || self.overdue { Some(CheckState::Unknown) } else { self.state }
    }
}

impl FleetCheckList {
    /// The states that a directory's rows have.
    pub fn from_directory(rows: &[DirectoryNodeRow], field: &str, current: bool) -> Self {
        let mut list = Self { current, ..Self::default() };
        for row in rows {
            let Ok(node) = Identity::parse(&row.node) else { continue };
            let is_missing = row.state == "missing";
            let value = row.fields.get(field).cloned().unwrap_or(Value::Null);
            let Ok(RecordedChecks { checks, omitted, .. }) = serde_json::from_value(value) else {
                continue;
            };
            if is_missing {
                list.missing.insert(node.clone());
            }
            list.omitted += omitted;
            let to_check = |(name, check)| FleetCheck::from_record(&node, name, check, is_missing);
            list.checks
                .extend(checks.into_iter().filter(|(name, _)| is_check_name(name)).map(to_check));
        }
        list.sort();
        list
    }

    /// The states that nodes have replied.
    pub fn from_replies(report: &RequestReport) -> Self {
        let stats = &report.stats;
        let silent = stats.missing.iter().chain(&stats.not_asked).chain(&stats.not_awaited);
        let mut list =
            Self { current: true, missing: silent.cloned().collect(), ..Self::default() };
        for reply in &report.replies {
            if !reply.is_ok() {
                list.missing.insert(reply.node.clone());
                continue;
            }
            let output: ScheduledChecksOutput = reply.typed_outputs();
            let rows = output.checks.into_iter().filter(|row| is_check_name(&row.check));
            list.checks.extend(rows.map(|row| FleetCheck::from_row(&reply.node, row)));
        }
        list.sort();
        list
    }

    /// Numbers of checks by hard state.
    pub fn counts(&self) -> CheckCounts {
        let mut counts = CheckCounts::default();
        self.checks.iter().for_each(|check| counts.add(check.state));
        counts
    }

    /// The state of all checks together, as of a check: the worst of those whose problem is not handled. Without checks it is UNKNOWN.
    pub fn overall_state(&self) -> CheckState {
        let open = self.checks.iter().filter(|check| !check.is_handled());
        let states: BTreeSet<CheckState> = open.filter_map(FleetCheck::effective_state).collect();
        let has = |state| states.contains(&state);
        if has(CheckState::Critical) {
            CheckState::Critical
        } else if has(CheckState::Unknown) || !self.missing.is_empty() || self.checks.is_empty() {
            CheckState::Unknown
        } else if has(CheckState::Warning) {
            CheckState::Warning
        } else {
            CheckState::Ok
        }
    }

    fn sort(&mut self) {
        self.checks.sort_by(|one, other| (&one.node, &one.check).cmp(&(&other.node, &other.check)));
    }
}

impl FleetCheck {
    fn from_record(node: &Identity, name: String, check: RecordedCheck, is_missing: bool) -> Self {
        let RecordedCheck { state, since, output, attempts, .. } = check;
        let attempt = match state {
            None => 0,
            Some(CheckState::Ok) => 1,
            Some(_) => attempts,
        };
        Self {
            node: node.clone(),
            check: name,
            state,
            since,
            attempt,
            max_attempts: attempts,
            acknowledged: check.acknowledged,
            maintenance: check.maintenance,
            flapping: check.flapping,
            overdue: check.overdue,
            node_missing: is_missing,
            output,
            perfdata: String::new(),
        }
    }

    fn from_row(node: &Identity, row: ScheduledCheckRow) -> Self {
        Self {
            node: node.clone(),
            check: row.check,
            state: row.state,
            since: row.since.map(|since| since / 1000),
            attempt: row.attempt,
            max_attempts: row.max_attempts,
            acknowledged: row.acknowledgement.is_some(),
            maintenance: row.maintenance.is_some(),
            flapping: row.flapping,
            overdue: row.overdue,
            node_missing: false,
            output: row.output,
            perfdata: row.perfdata,
        }
    }
}

/// The checks of the nodes that match, from the directory.
pub async fn list_recorded_checks(
    fleet: &FleetConnection,
    target: &TargetSelection,
    with_stale: bool,
) -> Result<FleetCheckList, FleetRequestError> {
    let fields = [format!("state.{CHECKS_STATE_NAME}")];
    let options = NodeListOptions { fields: &fields, with_stale, with_documents: false };
    let list = list_registered(fleet, target, options).await?.into_ready()?;
    let [field] = &fields;
    Ok(FleetCheckList::from_directory(&list.nodes, field, list.freshness.current))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use muster_contract::directory::DirectoryNodeRow;
    use muster_contract::nrpe::CheckState;
    use serde_json::{Value, json};

    use super::FleetCheckList;

    const FIELD: &str = "state.checks";

    fn row(node: &str, state: &str, checks: Value) -> DirectoryNodeRow {
        DirectoryNodeRow {
            node: node.to_owned(),
            state: state.to_owned(),
            fields: BTreeMap::from([(FIELD.to_owned(), checks)]),
            ..DirectoryNodeRow::default()
        }
    }

    #[test]
    fn records_become_rows_and_hostile_ones_are_left_out() {
        let checks = json!({"ok": 1, "critical": 1, "omitted": 3, "checks": {
            "load": {"state": "critical", "since": 5, "output": "high", "attempts": 3, "acknowledged": true},
            "disk": {"state": "ok", "attempts": 3},
            "x\u{1b}": {"state": "ok", "attempts": 1},
        }});
        let rows = [
            row("b", "present", checks),
            row("a", "missing", json!({"checks": {"disk": {"state": "ok", "attempts": 1}}})),
            row("c", "present", json!({"checks": 5})),
            row("d", "missing", Value::Null),
        ];
        let list = FleetCheckList::from_directory(&rows, FIELD, true);
        let found: Vec<_> = list
            .checks
            .iter()
            .map(|row| (row.node.as_str(), row.check.as_str(), row.state, row.attempt))
            .collect();
        assert_eq!(
            found,
            [
                ("a", "disk", Some(CheckState::Ok), 1),
                ("b", "disk", Some(CheckState::Ok), 1),
                ("b", "load", Some(CheckState::Critical), 3)
            ]
        );
        assert_eq!((list.omitted, list.missing.len(), list.counts().total()), (3, 1, 3));
        // The critical check is acknowledged; the node that is missing makes it unknown.
        assert_eq!(list.overall_state(), CheckState::Unknown);
        assert!(list.checks[0].is_problem() && !list.checks[1].is_problem());
    }

    #[test]
    fn overall_state_is_that_of_the_worst_open_problem() {
        let overall = |checks: Value| {
            let rows = [row("a", "present", json!({ "checks": checks }))];
            FleetCheckList::from_directory(&rows, FIELD, true).overall_state()
        };
        assert_eq!(overall(json!({})), CheckState::Unknown);
        assert_eq!(overall(json!({"x": {"state": "ok"}})), CheckState::Ok);
        assert_eq!(overall(json!({"x": {"state": "ok", "overdue": true}})), CheckState::Unknown);
        assert_eq!(overall(json!({"x": {"state": "warning"}, "y": {}})), CheckState::Warning);
        assert_eq!(
            overall(
                json!({"x": {"state": "warning"}, "y": {"state": "critical", "maintenance": true}})
            ),
            CheckState::Warning
        );
        let all = json!({"x": {"state": "unknown"}, "y": {"state": "critical"}});
        assert_eq!(overall(all), CheckState::Critical);
    }
}
