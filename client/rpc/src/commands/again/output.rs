//! Renders runs of Puppet that were asked for by a run, and their history.

use muster_base::NodeText;
use muster_client::{NodeReply, NodeRow, RequestReport};
use muster_contract::again::{
    AgainHistoryOutput, AgainHistoryRow, AgainListOutput, AgainReasonRow,
};
use muster_display::table::Table;
use muster_display::time::format_time_millis;
use muster_wire::identity::Identity;
use serde::Serialize;

/// A node, with the run that was asked for.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct AgainNode {
    node: Identity,
    #[serde(flatten)]
    list: AgainListOutput,
}

/// An entry of the history of a node.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct AgainNodeEntry {
    node: Identity,
    #[serde(flatten)]
    entry: AgainHistoryRow,
}

/// What the document of `rpc again list` contains.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct AgainListDocument<'a> {
    pub nodes: &'a [AgainNode],
}

/// What the document of `rpc again history` contains.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct AgainHistoryDocument<'a> {
    pub entries: &'a [AgainNodeEntry],
}

/// The nodes in the replies, by name; without `all` only those with a run, or on which none is permitted.
pub fn read_list(report: &RequestReport, all: bool) -> Vec<AgainNode> {
    let rows =
        report.rows().into_iter().map(|NodeRow { node, outputs: list }| AgainNode { node, list });
    rows.filter(|row| all || row.list.state != "none" || row.list.oscillating).collect()
}

/// The entries in the replies: newest first.
pub fn read_history(report: &RequestReport) -> Vec<AgainNodeEntry> {
    let entries = |reply: &NodeReply| {
        let output: AgainHistoryOutput = reply.typed_outputs();
        let node = reply.node.clone();
        output.entries.into_iter().map(move |entry| AgainNodeEntry { node: node.clone(), entry })
    };
    let mut entries: Vec<AgainNodeEntry> = report.successes().flat_map(entries).collect();
    entries.sort_by(|one, other| (other.entry.at, &one.node).cmp(&(one.entry.at, &other.node)));
    entries
}

/// Renders one line per node.
pub fn render_list(nodes: &[AgainNode], width: usize) -> String {
    let row = |AgainNode { node, list }: &AgainNode| {
        let is_stopped = list.oscillating && list.state == "none";
        let state = if is_stopped { "oscillating".into() } else { list.state.line() };
        [
            node.to_string(),
            state.into_owned(),
            list.requests.to_string(),
            reasons_text(&list.reasons),
            list_text(list),
        ]
    };
    let heading = ["NODE", "STATE", "REQUESTS", "REASON", "TEXT"];
    Table::new(heading).rows(nodes.iter().map(row)).render_rows(width)
}

/// The state in a sentence, with the nodes that the run waits for.
fn list_text(list: &AgainListOutput) -> String {
    let text = list.text.line();
    let barriers = list.barriers.iter();
    let barrier = barriers.max_by_key(|barrier| barrier.missing.unwrap_or_default());
    let Some((barrier, count)) = barrier.and_then(|barrier| Some((barrier, barrier.missing?)))
    else {
        return text.into_owned();
    };
    let names: Vec<_> = barrier.missing_nodes.iter().map(NodeText::line).collect();
    let more = count.saturating_sub(names.len() as u64);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{text}; not yet: {}{more}", names.join(", "))
}

/// Renders one line per entry.
pub fn render_history(entries: &[AgainNodeEntry], width: usize) -> String {
    let row = |AgainNodeEntry { node, entry }: &AgainNodeEntry| {
        let cause = entry.cause_run.as_ref().or(entry.cause_transaction.as_ref());
        let by = entry.by.as_ref().map(|by| format!(" by {}", by.line())).unwrap_or_default();
        let barrier = entry.barrier.as_ref().map(|barrier| format!("; {}", barrier.line()));
        let (end, detail) = (entry.end.line(), entry.detail.line());
        let end = format!("{end}: {detail}{by}{}", barrier.unwrap_or_default());
        [
            format_time_millis(entry.at),
            node.to_string(),
            end,
            reasons_text(&entry.reasons),
            id_end(cause),
            id_end(entry.run.as_ref()),
        ]
    };
    let heading = ["TIME", "NODE", "END", "REASON", "CAUSE", "RUN"];
    Table::new(heading).rows(entries.iter().map(row)).render_rows(width)
}

/// The last part of an id, which is random; whole ids leave no room for names.
fn id_end(id: Option<&String>) -> String {
    let end = id.and_then(|id| id.rsplit('-').next()).unwrap_or("-");
    end.to_owned()
}

/// The first reason, and the number of the others.
fn reasons_text(reasons: &[AgainReasonRow]) -> String {
    let Some((first, others)) = reasons.split_first() else { return "-".to_owned() };
    let first = format!("{}: {}", first.requester.line(), first.reason.line());
    match others.len() {
        0 => first,
        more => format!("{first} (and {more} more)"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{read_history, read_list, render_history, render_list};
    use crate::report::testing::WIDTH;
    use crate::report::testing::{plain, reply, report};

    #[test]
    fn lists_show_nodes_with_a_run_and_hostile_reasons_on_one_line() {
        let pending = json!({"state": "pending", "text": "due in 9 s", "oscillating": false, "requests": 2, "due": 1_800_000_000_000_u64,
            "reasons": [{"requester": "Exec[again]", "reason": "\u{1b}\n", "requests": 2}], "recent": 0});
        let none = json!({"state": "none", "text": "no run was asked for", "oscillating": false, "requests": 0, "recent": 0});
        let stuck = json!({"state": "none", "text": "the same changes", "oscillating": true, "requests": 0, "recent": 2});
        let report = report(
            "again",
            "list",
            vec![
                reply("web3.example.net", 0, "OK", stuck),
                reply("web1.example.net", 0, "OK", pending),
                reply("web2.example.net", 0, "OK", none),
            ],
        );
        assert_eq!(read_list(&report, true).len(), 3);
        let missing = json!({"state": "pending", "text": "waits", "oscillating": false, "requests": 1, "recent": 0,
            "barriers": [{"id": "1", "query": "gluster", "missing": 12, "missing_nodes": ["n1.example.net", "\u{1b}n2"]}]});
        let waiting = crate::report::testing::report(
            "again",
            "list",
            vec![reply("web1.example.net", 0, "OK", missing)],
        );
        let text = plain(&render_list(&read_list(&waiting, false), 200));
        assert!(
            text.contains("waits; not yet: n1.example.net, ") && text.contains(" and 10 more"),
            "{text}"
        );
        assert!(!text.contains('\u{1b}'));
        let text = plain(&render_list(&read_list(&report, false), WIDTH));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[1].starts_with("web1.example.net") && lines[1].contains("pending"), "{text}");
        assert!(
            lines[2].starts_with("web3.example.net") && lines[2].contains("oscillating"),
            "{text}"
        );
        assert!(!text.contains('\u{1b}'));
    }

    #[test]
    fn history_is_sorted_by_time_and_shows_the_chain() {
        let entry = |at: u64, run: Option<&str>| {
            json!({"id": "1", "end": if run.is_some() { "ran" } else { "suppressed" }, "detail": "noop", "by": null, "run": run,
                "cause_run": "01a219bd-647b-77c7-bb4b-f6aadab7a393", "cause_transaction": null, "since": 1, "at": at, "requests": 1, "reasons": []})
        };
        let report = report(
            "again",
            "list",
            vec![
                reply(
                    "web1.example.net",
                    0,
                    "OK",
                    json!({"entries": [entry(1_800_000_003_000, Some("run")), entry(1_800_000_001_000, None)]}),
                ),
                reply(
                    "web2.example.net",
                    0,
                    "OK",
                    json!({"entries": [entry(1_800_000_002_000, None)]}),
                ),
            ],
        );
        let text = plain(&render_history(&read_history(&report), WIDTH));
        let nodes: Vec<&str> =
            text.lines().skip(1).filter_map(|line| line.split_whitespace().nth(2)).collect();
        assert_eq!(nodes, ["web1.example.net", "web2.example.net", "web1.example.net"], "{text}");
        assert!(text.contains(" f6aadab7a393 ") && text.contains("suppressed:"), "{text}");
    }
}
