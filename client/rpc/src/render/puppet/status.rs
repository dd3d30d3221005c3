//! What Puppet does on each node.

use muster_wire::identity::Identity;
use serde::Serialize;

use super::{ago, flag, number, text};
use crate::render::grid::{Cell, grid};
use crate::render::json::Stats;
use crate::render::page::Page;
use crate::render::printable::line;
use crate::render::request::balance;
use crate::report::{Reply, Report};

/// What Puppet does on one node.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the agent tells each of them"
)]
pub struct State {
    node: Identity,
    /// `applying a catalog`, `idling`, `stopped` or `disabled`.
    status: String,
    enabled: bool,
    applying: bool,
    idling: bool,
    daemon_present: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    disable_message: Option<String>,
    /// When the last run ended, in seconds since 1970; 0 if there was none.
    lastrun: u64,
    /// Seconds since then.
    since_lastrun: u64,
    /// Whose the run lock is: `ours`, `puppet`, `stale` or `none`.
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder_pid: Option<u64>,
    /// The run of ours that goes on, or waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<String>,
    /// How far that is.
    #[serde(rename = "run_state", skip_serializing_if = "Option::is_none")]
    progress: Option<String>,
    /// How many refreshes are owed.
    pending: u64,
    /// The same in a sentence.
    message: String,
}

/// What successful answers to `puppet status` say, by node.
pub fn states(report: &Report) -> Vec<State> {
    let answered = report.replies.iter().filter(|reply| reply.is_ok());
    let mut states: Vec<State> = answered.map(State::of).collect();
    states.sort_by(|one, other| one.node.cmp(&other.node));
    states
}

impl State {
    fn of(reply: &Reply) -> Self {
        Self {
            node: reply.node.clone(),
            status: text(reply, "status").unwrap_or_default(),
            enabled: flag(reply, "enabled"),
            applying: flag(reply, "applying"),
            idling: flag(reply, "idling"),
            daemon_present: flag(reply, "daemon_present"),
            disable_message: text(reply, "disable_message"),
            lastrun: number(reply, "lastrun").unwrap_or(0),
            since_lastrun: number(reply, "since_lastrun").unwrap_or(0),
            holder: text(reply, "holder"),
            holder_pid: number(reply, "holder_pid"),
            run: text(reply, "run"),
            progress: text(reply, "run_state"),
            pending: number(reply, "pending").unwrap_or(0),
            message: text(reply, "message").unwrap_or_default(),
        }
    }

    /// The node, if runs are allowed there.
    pub fn node(&self) -> &Identity {
        &self.node
    }

    /// Why it may not run, if so: the message of whoever disabled it.
    pub fn disabled(&self) -> Option<String> {
        (!self.enabled).then(|| self.disable_message.clone().unwrap_or_default())
    }

    /// What else is worth knowing, in one cell.
    fn note(&self) -> String {
        let mut notes = Vec::new();
        if let Some(message) = &self.disable_message {
            notes.push(line(message).into_owned());
        }
        match (&self.progress, self.holder.as_deref()) {
            (Some(state), _) => notes.push(format!("our run: {}", line(state).replace('_', " "))),
            (None, Some("puppet")) => notes.push("a run that somebody else began".to_owned()),
            _ => {}
        }
        if self.holder.as_deref() == Some("stale") {
            notes.push("a lock that nobody holds".to_owned());
        }
        if self.pending > 0 {
            notes.push(format!("{} refreshes are owed", self.pending));
        }
        notes.join("; ")
    }
}

/// The table for people.
pub fn table(states: &[State], report: &Report, width: usize) -> String {
    let heading = ["NODE", "STATUS", "LAST RUN", "NOTE"].map(str::to_owned);
    let row = |state: &State| {
        let last = match state.lastrun {
            0 => "never".to_owned(),
            _ => format!("{} ago", ago(state.since_lastrun)),
        };
        let node = state.node.as_str();
        let node = if state.enabled {
            Cell::plain(node)
        } else {
            Cell::bad(node)
        };
        let cells = [line(&state.status).into_owned(), last, state.note()];
        let cells = cells.map(Cell::plain);
        std::iter::once(node).chain(cells).collect()
    };
    let rows: Vec<Vec<Cell>> = states.iter().map(row).collect();
    let mut page = Page::default();
    page.add(grid(&heading, &rows, width, None).text);
    page.gap();
    page.add(balance(report));
    page.text()
}

/// The document for programs.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Document<'a> {
    schema: &'static str,
    nodes: &'a [State],
    request_stats: Stats<'a>,
}

impl<'a> Document<'a> {
    /// The document of these.
    pub fn new(nodes: &'a [State], report: &'a Report) -> Self {
        Self {
            schema: "muster.puppet.status.v1",
            nodes,
            request_stats: Stats::new(&report.stats),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{states, table};
    use crate::render::fixtures::plain;
    use crate::render::puppet::fixtures;
    use crate::render::{WIDTH, is_within_width};

    #[test]
    fn every_state_in_a_table() {
        let report = fixtures::states();
        let text = plain(&table(&states(&report), &report, WIDTH));
        assert!(is_within_width(&text), "{text}");
        insta::assert_snapshot!("puppet_status", text);
    }
}
