//! Renders schedules: a list, one schedule, its history, and the question before one is added. Texts of the service are escaped.

use std::borrow::Cow;

use muster_base::format_millis;
use muster_contract::schedule::{
    ScheduleAddOutput, ScheduleEntry, ScheduleHistoryOutput, ScheduleListOutput,
    ScheduleOverdueRow, ScheduleRow, ScheduleShowOutput, ScheduleStartRow,
};
use muster_display::table::Table;
use muster_display::time::format_time_millis;
use muster_display::{TextPage, count_text, node_count_text};
use muster_schedule::{CompiledSchedule, ScheduleBlackout, ScheduleSpec};
use muster_wire::Millis;
use muster_wire::identity::SubjectName;
use serde_json::{Map, Value};

/// Most nodes in each list of `rpc schedule show`.
const MAX_LISTED_NODES: usize = 10;

/// Renders one line per schedule, and who requests.
pub fn render_schedule_list(list: &ScheduleListOutput, width: usize) -> String {
    let mut page = TextPage::default();
    if !list.schedules.is_empty() {
        let mut table = Table::new([
            "NAME", "STATE", "WHAT", "WHEN", "NODES", "RUNNING", "MISSED", "OVERDUE", "NEXT",
        ]);
        for row in &list.schedules {
            table.row(list_cells(row)).failed_if(row.state == "refused" || row.overdue > 0);
        }
        page.push_text(table.max_lines(Some(2)).render(width));
        page.push_gap();
    }
    if let Some(pause) = &list.paused {
        let (by, at) = (pause.by.line(), format_time_millis(pause.at));
        let reason = pause.reason.as_ref().map(|reason| format!(": {}", reason.block()));
        let reason = reason.unwrap_or_default();
        page.push_line(format_args!("all schedules are paused by {by} since {at}{reason}"));
    }
    match &list.leader {
        Some(leader) => page.push_line(format_args!("leader: {leader}")),
        None => page.push_line("no leader: nothing is requested until a host becomes the leader"),
    }
    page.into_text()
}

fn list_cells(row: &ScheduleRow) -> [Cow<'_, str>; 9] {
    [
        row.name.line(),
        row.state.line(),
        row.what.line(),
        row.when.line(),
        row.nodes.to_string().into(),
        row.running.to_string().into(),
        row.missed.to_string().into(),
        row.overdue.to_string().into(),
        optional_time(row.next).into(),
    ]
}

fn optional_time(millis: Option<Millis>) -> String {
    millis.map_or_else(|| "-".to_owned(), format_time_millis)
}

/// Renders one schedule with its next starts and its problems.
pub fn render_schedule(shown: &ScheduleShowOutput, width: usize) -> String {
    let row = &shown.schedule;
    let mut page = TextPage::default();
    let mut line = |name: &str, text: &str| {
        page.push_labels(0, 10, [(format!("{name}:"), text)]);
    };
    for (name, text) in
        [("Name", &row.name), ("Author", &row.author), ("What", &row.what), ("When", &row.when)]
    {
        line(name, &text.block());
    }
    for (name, text) in terms(&shown.spec) {
        line(name, &text);
    }
    let filter = row.filter.block();
    line("Filter", if filter.is_empty() { "all nodes with the agent" } else { &filter });
    let reason = row.reason.as_ref().map(|reason| format!(" ({})", reason.block()));
    line("State", &format!("{}{}", row.state.line(), reason.unwrap_or_default()));
    let limit = row.limit.map(|limit| format!(", {limit} at once")).unwrap_or_default();
    line("Nodes", &format!("{}{limit}, {} running", row.nodes, row.running));
    let outcomes = shown.outcomes.iter().map(|(outcome, count)| format!("{count} {outcome}"));
    let outcomes: Vec<String> = outcomes.collect();
    let outcomes_text =
        if outcomes.is_empty() { "none yet".to_owned() } else { outcomes.join(", ") };
    line("Outcomes", &outcomes_text);
    line("Ends", &format_time_millis(row.ends));
    if shown.peak > 0 {
        line("Peak", &peak_text(shown));
    }
    push_nodes(&mut page, ("Next starts", ["NODE", "TIME"]), &shown.next, start_cells, width);
    push_nodes(&mut page, ("Overdue", ["NODE", "LAST RUN"]), &shown.overdue, overdue_cells, width);
    push_nodes(
        &mut page,
        ("Missed", ["NODE", "TURN", "REASON"]),
        &shown.missed,
        missed_cells,
        width,
    );
    page.into_text()
}

/// Windows, blackouts, pool and inputs of a schedule, as pairs of name and text.
fn terms(spec: &Map<String, Value>) -> Vec<(&'static str, String)> {
    let Ok(spec) = serde_json::from_value::<ScheduleSpec>(Value::Object(spec.clone())) else {
        return Vec::new();
    };
    let mut terms = Vec::new();
    if !spec.windows.is_empty() {
        let zone = spec.time_zone.as_deref().unwrap_or("UTC");
        terms.push(("Windows", format!("{} ({zone})", spec.windows.join(", "))));
    }
    for blackout in &spec.blackouts {
        let ScheduleBlackout { from, until, reason } = blackout;
        let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
        terms.push(("Blackout", format!("{from} to {until}{reason}")));
    }
    if let Some(seconds) = spec.skip_if_ran_within {
        terms.push(("Skips", format!("nodes that ran within {}", format_millis(seconds * 1000))));
    }
    if let Some(pool) = &spec.pool {
        terms.push(("Pool", format!("{pool}, priority {}", spec.priority)));
    }
    if !spec.inputs.is_empty() {
        let inputs = spec.inputs.iter().map(|(name, value)| match value {
            Value::String(text) => format!("{name}={text}"),
            value => format!("{name}={value}"),
        });
        terms.push(("Inputs", inputs.collect::<Vec<_>>().join(" ")));
    }
    terms
}

/// The expected peak, and what another assignment of starts would change.
fn peak_text(shown: &ScheduleShowOutput) -> String {
    let ScheduleShowOutput { peak, balanced_peak, .. } = shown;
    let runs = format!("{peak} {} at once", if *peak == 1 { "run" } else { "runs" });
    if balanced_peak < peak {
        let name = shown.schedule.name.line();
        format!("{runs}, or {balanced_peak} after `rpc schedule rebalance {name}`")
    } else {
        runs
    }
}

/// A table of nodes, cut at [`MAX_LISTED_NODES`].
fn push_nodes<T, const N: usize>(
    page: &mut TextPage,
    (title, heading): (&str, [&str; N]),
    nodes: &[T],
    cells: impl Fn(&T) -> [Cow<'_, str>; N],
    width: usize,
) {
    if nodes.is_empty() {
        return;
    }
    page.push_gap();
    page.push_line(format_args!("{title}:"));
    let rows = nodes.iter().take(MAX_LISTED_NODES).map(cells);
    page.push_text(Table::new(heading).rows(rows).max_lines(Some(2)).render(width));
    if nodes.len() > MAX_LISTED_NODES {
        page.push_line(format_args!("and {} more", nodes.len() - MAX_LISTED_NODES));
    }
}

fn start_cells(start: &ScheduleStartRow) -> [Cow<'_, str>; 2] {
    [start.node.line(), format_time_millis(start.at).into()]
}

fn overdue_cells(row: &ScheduleOverdueRow) -> [Cow<'_, str>; 2] {
    let last = row.last.map_or_else(|| "never".to_owned(), format_time_millis);
    [row.node.line(), last.into()]
}

fn missed_cells(entry: &ScheduleEntry) -> [Cow<'_, str>; 3] {
    [entry.node.line(), format_time_millis(entry.slot).into(), entry.reason.line()]
}

/// Renders one line per turn of a node.
pub fn render_schedule_history(history: &ScheduleHistoryOutput, width: usize) -> String {
    let mut table = Table::new(["TIME", "NODE", "OUTCOME", "TOOK", "REASON"]);
    for entry in &history.entries {
        let took = match entry.took_ms {
            0 => "-".to_owned(),
            took => format_millis(took),
        };
        let cells = [
            format_time_millis(entry.at).into(),
            entry.node.line(),
            entry.outcome.line(),
            took.into(),
            entry.reason.line(),
        ];
        let is_bad =
            ["failed", "refused", "no_answer", "missed"].iter().any(|bad| entry.outcome == *bad);
        table.row(cells).failed_if(is_bad);
    }
    table.render_rows(width)
}

/// What the author confirms.
pub fn render_schedule_question(
    name: &SubjectName,
    schedule: &CompiledSchedule,
    nodes: usize,
    ends: Millis,
) -> String {
    let ScheduleSpec { agent, action, filter, .. } = schedule.spec();
    let (when, ends) = (schedule.describe_timing(), format_time_millis(ends));
    let (nodes, filter) = (node_count_text(nodes), filter.explain());
    format!(
        "Schedule {name}: {agent} {action} {when}, until {ends}.\n{nodes} match now: {filter}.\n"
    )
}

/// `wanted_end` is what the author asked for.
pub fn render_added_schedule(added: &ScheduleAddOutput, wanted_end: Millis) -> String {
    let mut page = TextPage::default();
    let verb = if added.replaced { "replaced" } else { "added" };
    let nodes = match added.nodes {
        Some(nodes) => format!("{} now", count_text(nodes, "node matches", "nodes match")),
        None => "the service does not know the nodes yet".to_owned(),
    };
    page.push_line(format_args!("{verb} {}: {nodes}", added.name.line()));
    let ends = format_time_millis(added.ends);
    if added.ends < wanted_end {
        page.push_line(format_args!("ends {ends}, with your credentials"));
    } else {
        page.push_line(format_args!("ends {ends}"));
    }
    let starts: Vec<String> = added.next.iter().map(|at| format_time_millis(*at)).collect();
    if !starts.is_empty() {
        page.push_line(format_args!("first starts: {}", starts.join(", ")));
    }
    page.into_text()
}

#[cfg(test)]
mod tests {
    use muster_contract::schedule::{ScheduleAddOutput, ScheduleListOutput, ScheduleShowOutput};
    use muster_schedule::ScheduleSpec;
    use muster_wire::identity::SubjectName;
    use serde_json::json;

    use super::*;
    use crate::report::testing::WIDTH;
    use crate::report::testing::plain;

    fn row(fields: &Value) -> Value {
        let mut row = json!({"name": "puppet", "author": "anna", "what": "puppet runonce", "when": "every 30 m", "filter": "", "limit": 10,
            "state": "active", "reason": null, "nodes": 120, "running": 3, "missed": 0, "overdue": 0, "next": 1_764_201_615_000_u64, "ends": 1_795_737_600_000_u64});
        let map = row.as_object_mut().unwrap();
        map.extend(fields.as_object().unwrap().clone());
        row
    }

    #[test]
    fn list_shows_state_and_leader_with_hostile_texts_on_one_line() {
        let list: ScheduleListOutput = serde_json::from_value(json!({
            "schedules": [row(&json!({})), row(&json!({"name": "n\u{1b}[2J\n", "state": "paused"}))],
            "paused": {"by": "anna", "at": 1_764_201_600_000_u64, "reason": "move\n"}, "leader": "mq1.example.com", "ready": true}))
        .unwrap();
        let text = plain(&render_schedule_list(&list, 140));
        assert!(!text.contains('\u{1b}'), "{text}");
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[1].starts_with("puppet") && lines[1].ends_with("2025-11-27 00:00:15Z"),
            "{text}"
        );
        assert!(text.contains("all schedules are paused by anna since 2025-11-27 00:00:00Z: move"));
        assert_eq!(*lines.last().unwrap(), "leader: mq1.example.com");
        let none = render_schedule_list(&ScheduleListOutput::default(), WIDTH);
        assert_eq!(none, "no leader: nothing is requested until a host becomes the leader\n");
    }

    #[test]
    fn terms_of_a_schedule_are_lines() {
        let spec = json!({
            "agent": "puppet", "action": "runonce", "every": 86400, "time_zone": "Europe/Berlin",
            "windows": ["mon-fri 22:00-04:00"], "skip_if_ran_within": 600, "pool": "eu",
            "blackouts": [{"from": "2026-12-24T00:00:00Z", "until": "2026-12-27T00:00:00Z", "reason": "holidays"}],
            "inputs": {"noop": true, "tags": "a,b"},
        });
        let lines: Vec<String> = terms(spec.as_object().unwrap())
            .into_iter()
            .map(|(name, text)| format!("{name}: {text}"))
            .collect();
        assert_eq!(
            lines,
            [
                "Windows: mon-fri 22:00-04:00 (Europe/Berlin)",
                "Blackout: 2026-12-24T00:00:00Z to 2026-12-27T00:00:00Z: holidays",
                "Skips: nodes that ran within 10 m 00 s",
                "Pool: eu, priority -10",
                "Inputs: noop=true tags=a,b",
            ]
        );
        assert_eq!(terms(&Map::new()), []);
    }

    #[test]
    fn schedule_shows_starts_and_problems() {
        let nodes: Vec<Value> =
            (0..12).map(|node| json!({"node": format!("web{node}.example.com"), "at": 1_764_201_615_000_u64})).collect();
        let shown: ScheduleShowOutput = serde_json::from_value(json!({
            "schedule": row(&json!({"state": "refused", "reason": "anna is revoked"})), "spec": {}, "outcomes": {"failed": 1, "succeeded": 119},
            "next": nodes, "overdue": [{"node": "old1.example.com", "last": null}],
            "missed": [{"at": 1, "slot": 1_764_201_600_000_u64, "node": "db1.example.com", "outcome": "missed", "reason": "no room", "took_ms": 0}],
            "load": [], "peak": 46, "balanced_peak": 40}))
        .unwrap();
        let text = plain(&render_schedule(&shown, WIDTH));
        for expected in [
            "State:    refused (anna is revoked)\n",
            "Nodes:    120, 10 at once, 3 running\n",
            "1 failed, 119 succeeded\n",
            "Ends:     2026-11-27 00:00:00Z\n",
            "Peak:     46 runs at once, or 40 after `rpc schedule rebalance puppet`\n",
            "and 2 more\n",
            "old1.example.com  never\n",
            "db1.example.com  2025-11-27 00:00:00Z  no room\n",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }

    #[test]
    fn history_has_a_line_per_turn() {
        let entry = |outcome: &str, took: u64| json!({"at": 1_764_201_600_000_u64, "slot": 1_764_201_600_000_u64, "node": "web1", "outcome": outcome, "reason": "changed", "took_ms": took});
        let history = serde_json::from_value(
            json!({"entries": [entry("succeeded", 14_200), entry("missed", 0)]}),
        )
        .unwrap();
        let text = plain(&render_schedule_history(&history, WIDTH));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "2025-11-27 00:00:00Z  web1  succeeded  14.20 s  changed");
        assert_eq!(lines[2], "2025-11-27 00:00:00Z  web1  missed     -        changed");
    }

    #[test]
    fn question_and_result_name_nodes_times_and_ends() {
        let name = SubjectName::parse("nightly").unwrap();
        let spec = ScheduleSpec::from_json(
            br#"{"agent":"puppet","action":"runonce","cron":"0 3 * * *","time_zone":"Europe/Berlin","filter":{"class":["apache"]}}"#,
        )
        .unwrap();
        assert_eq!(
            render_schedule_question(&name, &spec.compile().unwrap(), 12, 1_795_737_600_000),
            "Schedule nightly: puppet runonce at 0 3 * * * (Europe/Berlin), until 2026-11-27 00:00:00Z.\n12 nodes match now: nodes that have class apache.\n"
        );
        let added = ScheduleAddOutput {
            name: "nightly".into(),
            ends: 1_795_737_600_000,
            nodes: Some(1),
            next: vec![1_764_201_615_000],
            ..ScheduleAddOutput::default()
        };
        assert_eq!(
            render_added_schedule(&added, 1_795_737_600_000),
            "added nightly: 1 node matches now\nends 2026-11-27 00:00:00Z\nfirst starts: 2025-11-27 00:00:15Z\n"
        );
        let text = render_added_schedule(&added, 1_795_737_600_001);
        assert!(text.contains("ends 2026-11-27 00:00:00Z, with your credentials\n"), "{text}");
    }
}
