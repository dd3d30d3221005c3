//! Renders the provisioning of new nodes: a table, a history, one line per change, a document.

use std::borrow::Cow;

use muster_base::{NodeText, format_duration};
use muster_contract::provisioner::{
    ProvisionedNodeRow, ProvisionerStatusOutput, ProvisioningState,
};
use muster_display::page::{TextPage, fixed_cells};
use muster_display::table::Table;
use serde::Serialize;

/// Whether provisioning of any shown node has failed.
pub fn has_failed(overview: &ProvisionerStatusOutput) -> bool {
    let mut nodes = overview.nodes.iter();
    nodes.any(|node| node.is_in(ProvisioningState::Failed))
}

/// Whether provisioning of every shown node has ended.
pub fn is_settled(overview: &ProvisionerStatusOutput) -> bool {
    let is_in_progress = |node: &ProvisionedNodeRow| {
        !node.paused
            && (node.is_in(ProvisioningState::Working) || node.is_in(ProvisioningState::Retiring))
    };
    overview.more == 0 && !overview.nodes.iter().any(is_in_progress)
}

/// Renders the table and a summary line.
pub fn render_overview_table(overview: &ProvisionerStatusOutput, width: usize) -> String {
    let mut table = Table::new(["NODE", "STATE", "STEP", "DONE", "TIME", "MASTER", "ERROR"]);
    for node in &overview.nodes {
        table.row(table_cells(node)).failed_if(node.is_in(ProvisioningState::Failed));
    }
    let mut page = TextPage::default();
    page.push_text(table.max_lines(Some(2)).render_rows(width));
    page.push_gap();
    let counts: Vec<String> =
        overview.counts.iter().map(|(state, count)| format!("{count} {state}")).collect();
    let counts = if counts.is_empty() { "no nodes".to_owned() } else { counts.join(", ") };
    let leader = if overview.leader.is_empty() {
        "no leader".to_owned()
    } else {
        format!("leader: {}", overview.leader.line())
    };
    page.push_line(format_args!("{counts}; {leader}"));
    if overview.more > 0 {
        page.push_line(format_args!("and {} more", overview.more));
    }
    page.into_text()
}

fn table_cells(node: &ProvisionedNodeRow) -> [Cow<'_, str>; 7] {
    let state = if node.paused { "paused".into() } else { node.state.line() };
    let step = match node.attempt {
        0 | 1 => node.step.line(),
        attempt => format!("{} ({attempt}.)", node.step.line()).into(),
    };
    let took = std::time::Duration::from_millis(node.changed.saturating_sub(node.since));
    [
        node.node.line(),
        state,
        step,
        node.done.len().to_string().into(),
        format_duration(took).into(),
        node.master.line(),
        node.error.line(),
    ]
}

/// Renders the history of each node, oldest event first.
pub fn render_history(overview: &ProvisionerStatusOutput) -> String {
    let mut page = TextPage::default();
    for node in &overview.nodes {
        page.push_gap();
        for entry in &node.history {
            let cells = [&entry.step, &entry.what, &entry.words].map(NodeText::line);
            let cells = fixed_cells([20, 9, 0], &cells);
            page.push_line(format_args!("{}  {cells}", format_millis(entry.at)));
        }
    }
    page.into_text()
}

/// Describes the changes since the previous state, one line per node.
pub fn describe_changes(
    previous: Option<&ProvisionerStatusOutput>,
    current: &ProvisionerStatusOutput,
) -> Vec<String> {
    let previous_row = |name: &NodeText| previous?.nodes.iter().find(|node| node.node == *name);
    let progress = |node: &ProvisionedNodeRow| {
        (node.state.clone(), node.step.clone(), node.done.len(), node.attempt)
    };
    let has_changed = |node: &&ProvisionedNodeRow| {
        previous_row(&node.node).is_none_or(|old| progress(old) != progress(node))
    };
    let describe = |node: &ProvisionedNodeRow| {
        let (step, error) = (node.step.line(), node.error.line());
        let detail = match (&*step, &*error) {
            ("", _) => node.done.last().map(|step| format!("after {}", step.line())),
            (step, "") => Some(format!("at {step}")),
            (step, error) => Some(format!("at {step}: {error}")),
        };
        let detail = detail.unwrap_or_default();
        let at = format_millis(node.changed);
        let (name, state) = (node.node.line(), node.state.line());
        format!("{at}  {name}  {state}  {detail}").trim_end().to_owned()
    };
    current.nodes.iter().filter(has_changed).map(describe).collect()
}

fn format_millis(millis: u64) -> String {
    muster_display::time::format_time_millis(millis)
}

/// The document for programs.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct ProvisioningDocument<'a> {
    /// Its schema, and its version.
    pub schema: &'static str,
    /// The overview.
    #[serde(flatten)]
    pub overview: &'a ProvisionerStatusOutput,
}

#[cfg(test)]
mod tests {
    use muster_contract::provisioner::ProvisionerStatusOutput;
    use serde_json::{Value, json};

    use super::{describe_changes, has_failed, is_settled, render_history, render_overview_table};
    use crate::report::testing::WIDTH;
    use crate::report::testing::{plain, reply};

    fn overview(nodes: &Value) -> ProvisionerStatusOutput {
        let data = json!({
            "leader": "prov1.example.net", "counts": {"working": 1, "failed": 1, "done": 1}, "nodes": nodes, "more": 0,
        });
        reply("prov1.example.net", 0, "OK", data).typed_outputs()
    }

    fn nodes() -> Value {
        json!([
            {"node": "web1.example.net", "state": "done", "step": "", "attempt": 0, "done": ["lock", "place"], "paused": false,
             "error": "", "master": "puppet-a.example.net", "serial": "0A", "since": 1_790_000_000_000_u64, "changed": 1_790_000_041_000_u64,
             "history": [{"at": 1_790_000_000_000_u64, "step": "lock", "what": "began", "words": ""}]},
            {"node": "web2.example.net", "state": "failed", "step": "final_run", "attempt": 5, "done": ["lock"], "paused": false,
             "error": "final_run: provision.run_puppet on web2.example.net: the catalog does not compile \u{1b}[31m", "master": "puppet-a.example.net",
             "since": 1_790_000_000_000_u64, "changed": 1_790_000_100_000_u64},
            {"node": "web3.example.net", "state": "working", "step": "bootstrap", "attempt": 1, "done": [], "since": 1_790_000_000_000_u64,
             "changed": 1_790_000_002_000_u64},
        ])
    }

    #[test]
    fn renders_the_overview_table_and_history() {
        let overview = overview(&nodes());
        assert!(has_failed(&overview) && !is_settled(&overview));
        insta::assert_snapshot!("standing", plain(&render_overview_table(&overview, WIDTH)));
        insta::assert_snapshot!("history", plain(&render_history(&overview)));
    }

    #[test]
    fn only_changes_are_described() {
        let first = overview(&nodes());
        assert_eq!(describe_changes(None, &first).len(), 3);
        assert!(describe_changes(Some(&first), &first).is_empty());
        let mut later = nodes();
        later[2]["step"] = json!("final_run");
        let changes = describe_changes(Some(&first), &overview(&later));
        assert_eq!(changes, ["2026-09-21 14:13:22Z  web3.example.net  working  at final_run"]);
    }

    #[test]
    fn invalid_outputs_fall_back_to_the_default() {
        let reply = reply("prov1", 0, "OK", json!({"nodes": 3}));
        let overview: ProvisionerStatusOutput = reply.typed_outputs();
        assert_eq!(overview, ProvisionerStatusOutput::default());
    }
}
