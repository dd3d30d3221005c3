//! Renders a node: its record in rows, facts and states as outlines, and a section for each other source.

use std::time::Duration;

use muster_base::format_duration;
use muster_client::jobs::{JobReply, SavedJob};
use muster_contract::nrpe::CHECKS_STATE_NAME;
use muster_contract::read_values;
use muster_contract::rpcutil::{AgentProblemRow, CpuTimes, RpcutilDaemonStatsOutput};
use muster_display::TextPage;
use muster_display::duration::format_age;
use muster_display::printer::STRONG;
use muster_display::screen::UNLIMITED_WIDTH;
use muster_display::table::Table;
use muster_display::time::{format_time, format_time_millis};
use muster_display::value::value_lines;
use muster_wire::Millis;
use muster_wire::identity::Identity;
use serde_json::{Map, Value};

use crate::commands::node::sections::{NodeSections, ShownRecord};
use crate::report::check_rows::{FleetCheckRow, checks_table};
use crate::report::history_rows::{history_table, runs_table};
use crate::report::job_request::job_request_line;
use crate::report::status::outcome_text;

/// Indentation of a section, and width of the titles of statistics, in columns.
const INDENT: usize = 2;
const STATISTICS_WIDTH: usize = 28;
/// States that the page shows elsewhere.
const OTHER_STATES: [&str; 2] = ["ssh", CHECKS_STATE_NAME];

/// The page of a node, at this time, with outlines and tables of these widths.
pub fn render_sections(
    sections: &NodeSections,
    node: &Identity,
    (width, table_width): (usize, usize),
    now: Millis,
) -> String {
    let NodeSections { record, checks, daemon, runs, history, jobs } = sections;
    let (width, table_width) = (width.saturating_sub(INDENT), table_width.saturating_sub(INDENT));
    let mut states = record.output.state.clone();
    states.retain(|name, _| !OTHER_STATES.contains(&name.as_str()));
    let checks: Vec<FleetCheckRow<'_>> = checks.checks.iter().map(FleetCheckRow::new).collect();
    // A table of one node.
    let table = |mut table: Table| table.remove_column("NODE").render_rows(table_width);
    let statistics =
        |map: &Map<String, Value>| render_statistics(&read_values(map).unwrap_or_default());
    let mut page = TextPage::default();
    page.push_text(render_record(record));
    for (title, text) in [
        ("Facts", Ok(render_map(&record.output.facts, width))),
        ("State", Ok(render_map(&states, width))),
        ("Daemon", daemon.as_ref().map(statistics)),
        ("Checks", Ok(table(checks_table(&checks, now / 1000)))),
        ("Runs", runs.as_ref().map(|found| table(runs_table(&found.runs)))),
        ("History", history.as_ref().map(|found| table(history_table(&found.rows)))),
        ("Jobs", jobs.as_ref().map(|jobs| table(jobs_table(jobs, node)))),
    ] {
        push_section(&mut page, title, &text);
    }
    page.into_text()
}

/// An outline of the values; nothing without any.
fn render_map(map: &Map<String, Value>, width: usize) -> String {
    let lines = (!map.is_empty()).then(|| value_lines(&Value::Object(map.clone()), width));
    lines.unwrap_or_default().join("\n")
}

/// Appends a title and, indented, the text; `none` for no text, or the reason why there is none.
fn push_section(page: &mut TextPage, title: &str, text: &Result<String, &String>) {
    let (beside, below) = match text {
        Err(reason) => (reason.as_str(), ""),
        Ok(text) if text.is_empty() => ("none", ""),
        Ok(text) => ("", text.as_str()),
    };
    page.push_gap();
    page.push_line(format_args!("{STRONG}{title}:{STRONG:#} {beside}"));
    for line in below.lines() {
        page.push_line(format_args!("{:INDENT$}{line}", ""));
    }
}

fn render_record(record: &ShownRecord) -> String {
    let ShownRecord { output, live, directory_problem, .. } = record;
    let node = &output.node;
    let list =
        |names: &[String]| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let agents = output.agents.iter().map(|(name, version)| format!("{name} {version}"));
    let agents: Vec<String> = agents.map(|agent| agent.trim_end().to_owned()).collect();
    let classes = output.classes.as_deref().map_or("unknown".to_owned(), list);
    let row = |title: &str, value: String| [title.to_owned(), value];
    let mut rows = vec![
        row("node", node.node.clone()),
        row("state", node.state.clone()),
        row("last seen", format_age(node.seen)),
        row("version", node.version.clone()),
        row("collectives", list(&node.collectives)),
        row("agents", list(&agents)),
        row("classes", classes),
    ];
    rows.extend(node.problem.iter().map(|problem| row("problem", problem.clone())));
    rows.extend(output.ssh_host_keys.iter().map(|key| row("ssh host key", key.clone())));
    if let Some(live) = live {
        rows.push(row("data sources", list(&live.data_sources)));
        rows.extend(live.agent_problems.iter().map(|AgentProblemRow { path, problem, .. }| {
            row("agent problem", format!("{}: {}", path.line(), problem.line()))
        }));
    }
    rows.extend(
        directory_problem
            .iter()
            .map(|problem| row("directory", format!("{problem}; the node itself was asked"))),
    );
    Table::default().rows(rows).render(UNLIMITED_WIDTH)
}

/// Renders the daemon's statistics; leaves out values that the node did not report.
fn render_statistics(statistics: &RpcutilDaemonStatsOutput) -> String {
    let count = |count: Option<u64>| Some(count?.to_string());
    let processor_time = statistics.times.and_then(|CpuTimes { user, system }| {
        let format = |seconds| Duration::try_from_secs_f64(seconds).map(format_duration);
        let (total, system) = (format(user + system).ok()?, format(system).ok()?);
        Some(format!("{total}, {system} of it system time"))
    });
    let rows = [
        ("Version", statistics.version.clone()),
        ("Start Time", statistics.starttime.map(format_time)),
        ("Config File", statistics.configfile.clone()),
        ("Process ID", count(statistics.pid.map(u64::from))),
        ("Threads", count(statistics.threads)),
        ("Memory", statistics.memory_bytes.map(|bytes| format!("{} MiB", bytes / (1024 * 1024)))),
        ("Total Messages", count(statistics.total)),
        ("Messages Passed Filters", count(statistics.passed)),
        ("Messages Filtered", count(statistics.filtered)),
        ("Messages Not Authentic", count(statistics.unvalidated)),
        ("Expired Messages", count(statistics.ttlexpired)),
        ("Replayed Messages", count(statistics.replayed)),
        ("Denied Requests", count(statistics.denied)),
        ("Replies Sent", count(statistics.replies)),
        ("Total Processor Time", processor_time),
    ];
    let mut page = TextPage::default();
    let rows = rows.into_iter().filter_map(|(title, value)| Some((title, value?)));
    page.push_fields(STATISTICS_WIDTH, rows);
    page.into_text()
}

/// A table of jobs, with the result of this node.
fn jobs_table(jobs: &[SavedJob], node: &Identity) -> Table {
    let mut table = Table::new(["JOB", "STARTED", "RESULT", "REQUEST"]);
    for job in jobs {
        let reply = job.replies.get(node);
        let result = match reply {
            Some(reply) => {
                outcome_text(reply.statuscode, reply.reason.as_ref(), &reply.statusmsg.line())
            }
            None if job.requested_nodes.contains(node) => "no response".to_owned(),
            None => "not called".to_owned(),
        };
        let header = &job.header;
        let started = format_time_millis(header.started);
        let cells = [header.id.clone(), started, result, job_request_line(header)];
        table.row(cells).failed_if(!reply.is_some_and(JobReply::is_ok));
    }
    table.max_lines(Some(2));
    table
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use muster_contract::directory::{DirectoryNodeRow, DirectoryShowOutput};
    use muster_contract::history::{HistoryQueryOutput, HistoryRunsOutput};
    use muster_display::json;
    use muster_operations::check::FleetCheckList;
    use serde_json::json;

    use super::*;
    use crate::commands::node::document::NodeDocument;
    use crate::commands::node::sections::LiveDetails;
    use crate::report::testing::WIDTH;
    use crate::report::testing::plain;

    const NOW: Millis = 1_767_229_200_000;

    fn map(value: Value) -> Map<String, Value> {
        serde_json::from_value(value).unwrap()
    }

    fn record() -> ShownRecord {
        let node = DirectoryNodeRow {
            node: "dev1.example.net".to_owned(),
            state: "present".to_owned(),
            seen: Some(7),
            version: "1.0.0".to_owned(),
            collectives: vec!["muster".to_owned(), "eu".to_owned()],
            ..DirectoryNodeRow::default()
        };
        let facts = json!({
            "country": "de",
            "os": {"family": "Debian", "release": {"major": "12"}},
            "disks": ["sda", "sdb"],
            "banner": "hello\nworld",
            "evil\u{1b}": "\u{1b}]0;owned\u{7}",
        });
        let checks = json!({"checks": {"load": {
            "state": "critical", "since": 1_767_225_600, "output": "CRITICAL - 9", "attempts": 3,
        }}});
        let output = DirectoryShowOutput {
            node,
            classes: Some(vec!["apache".to_owned(), "mysql::master".to_owned()]),
            agents: BTreeMap::from([("rpcutil".to_owned(), "1.2.0".to_owned())]),
            facts: map(facts),
            state: map(json!({"puppet": {"disabled": false}, "ssh": {}, "checks": checks})),
            ssh_host_keys: vec!["ssh-ed25519 AAAA".to_owned()],
            ..DirectoryShowOutput::default()
        };
        ShownRecord { output, ..ShownRecord::default() }
    }

    fn sections() -> NodeSections {
        let statistics = json!({
            "threads": 4, "pid": 4711, "times": {"user": 0.05, "system": 0.02}, "unvalidated": 0,
            "starttime": 1_767_225_600, "configfile": "/etc/muster/rpcd.toml", "version": "1.0.0",
            "memory_bytes": 12_582_912,
        });
        let run = json!({
            "run": "019ac5b2-7c0e-7a31-b0ad-5f6f1d4c2e11", "node": "dev1.example.net",
            "started": 1_767_225_600_000_u64, "ended": 1_767_225_660_000_u64, "status": "changed",
            "resources": 120, "changed": 2,
        });
        let row = json!({
            "time": 1_767_225_600_000_u64, "node": "dev1.example.net", "kind": "change",
            "status": "success", "who": "rip", "resource": "File[/etc/motd]",
            "message": "content\u{1b}[2J changed",
        });
        let runs = HistoryRunsOutput {
            runs: vec![serde_json::from_value(run).unwrap()],
            ..HistoryRunsOutput::default()
        };
        let history = HistoryQueryOutput {
            rows: vec![serde_json::from_value(row).unwrap()],
            ..HistoryQueryOutput::default()
        };
        let record = record();
        let mut row = record.output.node.clone();
        row.fields.insert("checks".to_owned(), record.output.state["checks"].clone());
        NodeSections {
            checks: FleetCheckList::from_directory(&[row], "checks", true),
            record,
            daemon: Ok(map(statistics)),
            runs: Ok(runs),
            history: Ok(history),
            jobs: Ok(Vec::new()),
        }
    }

    fn rendered(sections: &NodeSections) -> String {
        let node = "dev1.example.net".parse().unwrap();
        plain(&render_sections(sections, &node, (WIDTH, UNLIMITED_WIDTH), NOW))
    }

    #[test]
    fn page_has_a_section_for_each_source() {
        let sections = sections();
        insta::assert_snapshot!("node", rendered(&sections));
        let node = "dev1.example.net".parse().unwrap();
        let document = NodeDocument::new(&sections, &node);
        insta::assert_snapshot!("node_json", json::to_safe_text(&document).unwrap());
    }

    #[test]
    fn missing_sections_say_why_in_a_line() {
        let reason = "no history is running".to_owned();
        let problem = AgentProblemRow {
            agent: "disk".to_owned(),
            path: "/etc/muster/ddl/disk.json".to_owned().into(),
            problem: "no JSON\nat all".to_owned().into(),
        };
        let record = ShownRecord {
            live: Some(LiveDetails { data_sources: Vec::new(), agent_problems: vec![problem] }),
            directory_problem: Some("no directory is running".to_owned()),
            ..record()
        };
        let sections = NodeSections {
            record,
            checks: FleetCheckList::default(),
            daemon: Err("dev1.example.net is not connected\nweb2: forged".to_owned()),
            runs: Err(reason.clone()),
            history: Err(reason),
            ..sections()
        };
        let text = rendered(&sections);
        for line in [
            "agent problem  /etc/muster/ddl/disk.json: no JSON\\nat all\n",
            "directory      no directory is running; the node itself was asked\n",
            "Daemon: dev1.example.net is not connected\\nweb2: forged\n",
            "Checks: none\n",
            "Runs: no history is running\n",
            "Jobs: none\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        let node = "dev1.example.net".parse().unwrap();
        let document = serde_json::to_value(NodeDocument::new(&sections, &node)).unwrap();
        assert_eq!((&document["source"], &document["runs"]), (&json!("node"), &Value::Null));
        assert_eq!(document["unavailable"]["runs"], "no history is running");
    }
}
