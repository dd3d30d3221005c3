//! Renders Puppet's state on each node.

use std::time::Duration;

use muster_base::{NodeText, format_duration};
use muster_client::{NodeRow, PuppetRunsReport, RequestReport};
use muster_contract::puppet::{PuppetRunClass, PuppetStatusOutput};
use muster_display::table::Table;
use muster_display::{TextPage, node_count_text};
use muster_wire::identity::Identity;
use serde::Serialize;

use crate::report::request::balance_line;

/// Maximum number of reasons in the error when nothing can run.
const MAX_IDLE_REASONS: usize = 4;

/// State of Puppet on one node.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[expect(clippy::struct_excessive_bools, reason = "the agent reports each of them")]
pub struct PuppetNodeState {
    node: Identity,
    /// `applying a catalog`, `idling`, `stopped` or `disabled`.
    status: NodeText,
    enabled: bool,
    applying: bool,
    idling: bool,
    daemon_present: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    disable_message: Option<NodeText>,
    /// When the last run ended, in seconds since 1970; 0 if there was none.
    lastrun: u64,
    /// Seconds since then.
    since_lastrun: u64,
    /// The outcome class of the last run, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    last_class: Option<PuppetRunClass>,
    /// Resources of the last run that failed, or whose refresh failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_failed: Option<u64>,
    /// Holder of the run lock: `ours`, `puppet`, `stale` or `none`.
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder_pid: Option<u64>,
    /// Id of the run that Muster started and that is running or waiting.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<String>,
    /// State of that run.
    #[serde(rename = "run_state", skip_serializing_if = "Option::is_none")]
    progress: Option<String>,
    /// Number of pending refreshes.
    pending: u64,
    /// The state in a sentence.
    message: NodeText,
}

/// Parses the successful replies to `puppet status`, by node.
pub fn node_states(report: &RequestReport) -> Vec<PuppetNodeState> {
    report.rows().into_iter().map(PuppetNodeState::from).collect()
}

impl From<NodeRow<PuppetStatusOutput>> for PuppetNodeState {
    fn from(row: NodeRow<PuppetStatusOutput>) -> Self {
        let NodeRow { node, outputs: output } = row;
        let is_present = |text: &String| !text.is_empty();
        Self {
            node,
            status: output.status,
            enabled: output.enabled,
            applying: output.applying,
            idling: output.idling,
            daemon_present: output.daemon_present,
            disable_message: Some(output.disable_message).filter(|text| !text.is_empty()),
            lastrun: output.lastrun,
            since_lastrun: output.since_lastrun,
            last_class: output.last_class,
            last_failed: output.last_failed,
            holder: Some(output.holder).filter(is_present),
            holder_pid: output.holder_pid,
            run: output.run.filter(is_present),
            progress: output.run_state.filter(is_present),
            pending: output.pending,
            message: output.message,
        }
    }
}

impl PuppetNodeState {
    pub fn node(&self) -> &Identity {
        &self.node
    }

    pub fn disable_reason(&self) -> Option<NodeText> {
        (!self.enabled).then(|| self.disable_message.clone().unwrap_or_default())
    }

    /// Other relevant information, in one cell.
    fn note_text(&self) -> String {
        let mut notes = Vec::new();
        if let Some(message) = &self.disable_message {
            notes.push(message.line().into_owned());
        }
        match (&self.progress, self.holder.as_deref()) {
            (Some(state), _) => {
                notes.push(format!("our run: {}", state.replace('_', " ")));
            }
            (None, Some("puppet")) => notes.push("run of another process".to_owned()),
            _ => {}
        }
        if self.holder.as_deref() == Some("stale") {
            notes.push("stale lock".to_owned());
        }
        if self.pending > 0 {
            let noun = if self.pending == 1 { "refresh" } else { "refreshes" };
            notes.push(format!("{} pending {noun}", self.pending));
        }
        notes.extend(self.last_failure_text());
        notes.join("; ")
    }

    fn last_failure_text(&self) -> Option<String> {
        let class = self.last_class.as_ref()?;
        match (class, self.last_failed.unwrap_or_default()) {
            (PuppetRunClass::CompileFailed, _) => Some("last run failed: no catalog".to_owned()),
            (_, 1) => Some("last run failed: 1 resource".to_owned()),
            (_, failed @ 2..) => Some(format!("last run failed: {failed} resources")),
            (PuppetRunClass::Failed | PuppetRunClass::FailedChanged, 0) => {
                Some("last run failed".to_owned())
            }
            _ => None,
        }
    }
}

pub fn render_status_table(
    states: &[PuppetNodeState],
    report: &RequestReport,
    width: usize,
) -> String {
    let mut table = Table::new(["NODE", "STATUS", "LAST RUN", "NOTE"]);
    for state in states {
        let last = match state.lastrun {
            0 => "never".to_owned(),
            _ => format!("{} ago", format_duration(Duration::from_secs(state.since_lastrun))),
        };
        table.row([
            state.node.to_string(),
            state.status.line().into_owned(),
            last,
            state.note_text(),
        ]);
        table.failed_if(!state.enabled || state.last_failure_text().is_some());
    }
    let mut page = TextPage::default();
    page.push_text(table.render(width));
    page.push_gap();
    page.push_text(balance_line(report));
    page.into_text()
}

/// What the document for programs contains, besides the statistics of the request.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct PuppetStatusDocument<'a> {
    pub nodes: &'a [PuppetNodeState],
}

/// The error when no node is left to run on, with the reasons and the numbers of nodes.
pub fn describe_idle_nodes(runs: &PuppetRunsReport) -> String {
    let reasons = runs.idle_reasons();
    let mut parts: Vec<String> = reasons
        .iter()
        .take(MAX_IDLE_REASONS)
        .map(|(count, reason)| format!("{}: {}", node_count_text(*count), reason))
        .collect();
    if reasons.len() > MAX_IDLE_REASONS {
        parts.push("for other nodes see -j".to_owned());
    }
    format!("nothing to run: {}", parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::{node_states, render_status_table};
    use crate::commands::puppet::output::fixtures;
    use crate::report::testing::plain;
    use crate::report::testing::{WIDTH, is_within_width};

    #[test]
    fn table_shows_every_state() {
        let report = fixtures::states();
        let text = plain(&render_status_table(&node_states(&report), &report, WIDTH));
        assert!(is_within_width(&text), "{text}");
        insta::assert_snapshot!("puppet_status", text);
    }
}
