//! Renders the provisioning of new nodes: a table, a history, one line per change, a document.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::grid::{TableCell, lay_out_table};
use super::page::TextPage;
use super::printable::escape_to_line;
use super::span::format_duration;
use crate::report::NodeReply;

/// State of provisioning, as reported by one host of the service.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ProvisioningOverview {
    /// The leading host; empty if there is none.
    leader: String,
    /// Number of nodes by state.
    counts: Map<String, Value>,
    /// The nodes, by name.
    nodes: Vec<ProvisioningNodeStatus>,
    /// Number of further nodes, which are not listed.
    more: u64,
}

/// One node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
struct ProvisioningNodeStatus {
    node: String,
    /// `working`, `failed`, `done`, `retiring` or `retired`.
    state: String,
    /// The current or next step; empty if there is none.
    step: String,
    /// Number of the attempt.
    attempt: u64,
    /// Completed steps.
    done: Vec<String>,
    paused: bool,
    /// Why it failed, or was deferred.
    error: String,
    master: String,
    /// Serial number of its certificate.
    serial: String,
    /// When it was first seen, in milliseconds since 1970.
    since: u64,
    /// When it changed last, in milliseconds since 1970.
    changed: u64,
    history: Vec<ProvisioningHistoryEntry>,
}

/// An event in the history of a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
struct ProvisioningHistoryEntry {
    /// Time, in milliseconds since 1970.
    at: u64,
    step: String,
    /// `began`, `done`, `failed`, `deferred` or `asked`.
    what: String,
    words: String,
}

impl ProvisioningOverview {
    /// Parses a host's reply; missing outputs are empty.
    pub fn from_reply(reply: &NodeReply) -> Self {
        serde_json::from_value(Value::Object(reply.data.clone())).unwrap_or_default()
    }

    /// Whether provisioning of any shown node has failed.
    pub fn has_failed(&self) -> bool {
        self.nodes.iter().any(|node| node.state == "failed")
    }

    /// Whether provisioning of every shown node has ended.
    pub fn is_settled(&self) -> bool {
        let moves = |node: &ProvisioningNodeStatus| {
            !node.paused && matches!(&*node.state, "working" | "retiring")
        };
        self.more == 0 && !self.nodes.iter().any(moves)
    }
}

/// Renders the table and a summary line.
pub fn render_overview_table(standing: &ProvisioningOverview, width: usize) -> String {
    let heading = ["NODE", "STATE", "STEP", "DONE", "TIME", "MASTER", "ERROR"].map(str::to_owned);
    let rows: Vec<Vec<TableCell>> = standing.nodes.iter().map(table_row).collect();
    let mut page = TextPage::default();
    if !rows.is_empty() {
        page.push_text(lay_out_table(&heading, &rows, width, Some(2)).text);
        page.push_gap();
    }
    let counts: Vec<String> = standing
        .counts
        .iter()
        .map(|(state, count)| format!("{count} {state}"))
        .collect();
    let counts = if counts.is_empty() {
        "no nodes".to_owned()
    } else {
        counts.join(", ")
    };
    let leader = match &*standing.leader {
        "" => "no leader".to_owned(),
        leader => format!("leader: {}", escape_to_line(leader)),
    };
    page.push_line(format_args!("{counts}; {leader}"));
    if standing.more > 0 {
        page.push_line(format_args!("and {} more", standing.more));
    }
    page.into_text()
}

fn table_row(node: &ProvisioningNodeStatus) -> Vec<TableCell> {
    let name = escape_to_line(&node.node).into_owned();
    let first = if node.state == "failed" {
        TableCell::bad(name)
    } else {
        TableCell::plain(name)
    };
    let state = if node.paused { "paused" } else { &node.state };
    let step = match node.attempt {
        0 | 1 => node.step.clone(),
        attempt => format!("{} ({attempt}.)", node.step),
    };
    let took = std::time::Duration::from_millis(node.changed.saturating_sub(node.since));
    let rest = [
        state.to_owned(),
        step,
        node.done.len().to_string(),
        format_duration(took),
        node.master.clone(),
        node.error.clone(),
    ];
    let rest = rest
        .iter()
        .map(|text| TableCell::plain(escape_to_line(text).into_owned()));
    std::iter::once(first).chain(rest).collect()
}

/// Renders the history of each node, oldest event first.
pub fn render_history(standing: &ProvisioningOverview) -> String {
    let mut page = TextPage::default();
    for node in &standing.nodes {
        page.push_gap();
        for entry in &node.history {
            let at = format_millis(entry.at);
            let (step, what) = (escape_to_line(&entry.step), escape_to_line(&entry.what));
            let words = escape_to_line(&entry.words);
            page.push_line(
                format_args!("{at}  {step:<20} {what:<9} {words}")
                    .to_string()
                    .trim_end(),
            );
        }
    }
    page.into_text()
}

/// Describes the changes since the previous state, one line per node.
pub fn describe_changes(
    before: Option<&ProvisioningOverview>,
    now: &ProvisioningOverview,
) -> Vec<String> {
    let known = |name: &str| before?.nodes.iter().find(|node| node.node == name);
    let told = |node: &ProvisioningNodeStatus| {
        (
            node.state.clone(),
            node.step.clone(),
            node.done.len(),
            node.attempt,
        )
    };
    let news = |node: &&ProvisioningNodeStatus| {
        known(&node.node).is_none_or(|old| told(old) != told(node))
    };
    let say = |node: &ProvisioningNodeStatus| {
        let what = match (&*node.step, &*node.error) {
            ("", _) => node
                .done
                .last()
                .map_or(String::new(), |step| format!("after {step}")),
            (step, "") => format!("at {step}"),
            (step, error) => format!("at {step}: {error}"),
        };
        let at = format_millis(node.changed);
        let (name, state) = (escape_to_line(&node.node), escape_to_line(&node.state));
        format!("{at}  {name}  {state}  {}", escape_to_line(&what))
            .trim_end()
            .to_owned()
    };
    now.nodes.iter().filter(news).map(say).collect()
}

fn format_millis(millis: u64) -> String {
    crate::clock::format_utc(millis / 1000)
}

/// The document for programs.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ProvisioningDocument<'a> {
    schema: &'static str,
    #[serde(flatten)]
    standing: &'a ProvisioningOverview,
}

impl<'a> ProvisioningDocument<'a> {
    /// Creates the document of this overview.
    pub fn new(standing: &'a ProvisioningOverview) -> Self {
        Self {
            schema: "muster.provision.v1",
            standing,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{ProvisioningOverview, describe_changes, render_history, render_overview_table};
    use crate::render::WIDTH;
    use crate::render::fixtures::{plain, reply};

    fn standing(nodes: &Value) -> ProvisioningOverview {
        let data = json!({
            "leader": "prov1.example.net", "counts": {"working": 1, "failed": 1, "done": 1}, "nodes": nodes, "more": 0,
        });
        ProvisioningOverview::from_reply(&reply("prov1.example.net", 0, "OK", data))
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
    fn nodes_stand_in_a_table() {
        let standing = standing(&nodes());
        assert!(standing.has_failed() && !standing.is_settled());
        insta::assert_snapshot!("standing", plain(&render_overview_table(&standing, WIDTH)));
        insta::assert_snapshot!("history", plain(&render_history(&standing)));
    }

    #[test]
    fn only_what_is_new_is_told() {
        let first = standing(&nodes());
        assert_eq!(describe_changes(None, &first).len(), 3);
        assert!(describe_changes(Some(&first), &first).is_empty());
        let mut later = nodes();
        later[2]["step"] = json!("final_run");
        let told = describe_changes(Some(&first), &standing(&later));
        assert_eq!(
            told,
            ["2026-09-21 14:13:22Z  web3.example.net  working  at final_run"]
        );
    }

    #[test]
    fn an_answer_of_another_version_is_read_as_far_as_it_goes() {
        assert_eq!(
            ProvisioningOverview::from_reply(&reply("prov1", 0, "OK", json!({"nodes": 3}))),
            ProvisioningOverview::default()
        );
    }
}
