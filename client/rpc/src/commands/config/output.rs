//! Renders deployments of the files of daemons: a line for each node, the totals, the documents for programs.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_base::{NodeText, duration_millis, format_duration};
use muster_client::{NodeRow, RequestReport};
use muster_contract::config::{ConfigStatusOutput, DeployedChange, deploy_state};
use muster_display::printer::{BAD, HINT};
use muster_display::table::Table;
use muster_display::time::format_time_millis;
use muster_display::{TextPage, node_count_text};
use muster_operations::deploy::{DeployReport, NodeDeployOutcome, NodeDeployResult};
use muster_wire::identity::Identity;
use serde::Serialize;

/// Files that a line names; more are counted.
const SHOWN_FILES: usize = 6;

#[derive(Debug, Clone, Copy)]
pub struct DeployView<'a> {
    pub report: &'a DeployReport,
    /// Time until a node restores its earlier files.
    pub confirm: Duration,
}

/// The document for programs.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct DeployDocument<'a> {
    schema: &'static str,
    /// The name of the deployment.
    deployment: &'a str,
    /// The results, by name of node.
    results: Vec<DeployResultDocument<'a>>,
    /// Number of nodes by result.
    counts: BTreeMap<&'static str, usize>,
    /// Duration in milliseconds.
    took_ms: u64,
    /// Why the command ended early; null if it did not.
    stopped: Option<String>,
}

/// The result of one node.
#[derive(Debug, Serialize, schemars::JsonSchema)]
struct DeployResultDocument<'a> {
    node: &'a str,
    /// `confirmed`, `unchanged`, `planned` (with `--noop`), `reverted` (a deployment that waited for its confirmation was undone), `failed` (the files are as
    /// they were), `unconfirmed` (the node restores its earlier files), `no_reply`, or `not_completed` (the command ended early).
    result: &'static str,
    /// Why it did not succeed; null if it did.
    message: Option<&'a NodeText>,
    /// How the daemon put the files in force: `reload`, `restart`, `nothing`; empty if unknown.
    effect: &'a str,
    /// The files that changed, or would change.
    changes: &'a [DeployedChange],
}

impl<'a> DeployView<'a> {
    /// Renders a line for each node.
    pub fn render_nodes(&self) -> String {
        let mut page = TextPage::default();
        for (node, result) in &self.report.results.nodes {
            let text = self.describe(result);
            if result.outcome.is_ok() {
                page.push_line(format_args!("{HINT}{node}:{HINT:#} {text}"));
            } else {
                page.push_line(format_args!("{HINT}{node}:{HINT:#} {BAD}{text}{BAD:#}"));
            }
        }
        page.into_text()
    }

    fn describe(&self, result: &NodeDeployResult) -> String {
        let changes = || describe_changes(&result.output.changes);
        match &result.outcome {
            NodeDeployOutcome::Confirmed => format!("confirmed: {}", changes()),
            NodeDeployOutcome::Unchanged => "unchanged".to_owned(),
            NodeDeployOutcome::Planned if result.output.changes.is_empty() => {
                "nothing would change".to_owned()
            }
            NodeDeployOutcome::Planned => format!("would change: {}", changes()),
            NodeDeployOutcome::Reverted => "the pending deployment was reverted".to_owned(),
            NodeDeployOutcome::Failed(message) => format!("failed: {}", message.block()),
            NodeDeployOutcome::Unconfirmed(message) => format!(
                "not confirmed: {}; the node undoes it within {}",
                message.block(),
                format_duration(self.confirm)
            ),
            NodeDeployOutcome::NoReply(message) => format!("no reply: {}", message.block()),
            NodeDeployOutcome::NotCompleted => "not completed: the command ended early".to_owned(),
        }
    }

    pub fn render_totals(&self) -> String {
        let counts = self.counts();
        let texts: Vec<String> = counts
            .iter()
            .map(|(name, count)| format!("{count} {}", name.replace('_', " ")))
            .collect();
        let nodes = node_count_text(self.report.results.nodes.len());
        let time = format_duration(self.report.results.took);
        format!("{nodes} in {time}: {}", texts.join(", "))
    }

    fn counts(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for result in self.report.results.nodes.values() {
            *counts.entry(result.outcome.as_str()).or_default() += 1;
        }
        counts
    }

    pub fn document(&self) -> DeployDocument<'a> {
        let document =
            |(node, result): (&'a Identity, &'a NodeDeployResult)| DeployResultDocument {
                node: node.as_str(),
                result: result.outcome.as_str(),
                message: result.outcome.message(),
                effect: &result.output.effect,
                changes: &result.output.changes,
            };
        DeployDocument {
            schema: "muster.config.deploy.v1",
            deployment: &self.report.deployment,
            results: self.report.results.nodes.iter().map(document).collect(),
            counts: self.counts(),
            took_ms: duration_millis(self.report.results.took),
            stopped: self.report.results.stop.map(|stop| stop.to_string()),
        }
    }
}

fn describe_changes(changes: &[DeployedChange]) -> String {
    let names = changes.iter().take(SHOWN_FILES);
    let describe = |DeployedChange { name, change }: &DeployedChange| {
        format!("{} {}", name.line(), change.line())
    };
    let mut texts: Vec<String> = names.map(describe).collect();
    match changes.len().saturating_sub(SHOWN_FILES) {
        0 => {}
        more => texts.push(format!("{more} more")),
    }
    texts.join(", ")
}

/// The last deployment of a node.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct NodeConfigState {
    node: Identity,
    #[serde(flatten)]
    status: ConfigStatusOutput,
}

/// The document of `rpc config status`.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct ConfigStatusDocument<'a> {
    /// By name of node.
    pub nodes: &'a [NodeConfigState],
}

/// The replies that can be read, by name of node.
pub fn read_states(report: &RequestReport) -> Vec<NodeConfigState> {
    let rows = report.rows().into_iter();
    rows.map(|NodeRow { node, outputs: status }| NodeConfigState { node, status }).collect()
}

/// Renders a line for each node.
pub fn render_states(states: &[NodeConfigState], width: usize) -> String {
    let row = |NodeConfigState { node, status }: &NodeConfigState| {
        let is_none = status.state == deploy_state::NONE;
        let text = |text: String| if is_none { "-".to_owned() } else { text };
        [
            node.to_string(),
            status.state.line().into_owned(),
            text(format_time_millis(status.deployed_at)),
            text(status.caller.line().into_owned()),
            text(status.files.len().to_string()),
            describe_program(status),
            describe_note(status),
        ]
    };
    let heading = ["NODE", "STATE", "DEPLOYED", "BY", "FILES", "PROGRAM", "NOTE"];
    Table::new(heading).rows(states.iter().map(row)).render_rows(width)
}

fn describe_program(status: &ConfigStatusOutput) -> String {
    if status.program.is_empty() {
        "installed".to_owned()
    } else {
        status.program.line().into_owned()
    }
}

fn describe_note(status: &ConfigStatusOutput) -> String {
    if !status.reason.is_empty() {
        return status.reason.line().into_owned();
    }
    if status.confirm_by > 0 {
        return format!("undoes it at {}", format_time_millis(status.confirm_by));
    }
    if status.modified.is_empty() {
        return String::new();
    }
    let modified: Vec<_> = status.modified.iter().map(NodeText::line).collect();
    format!("changed by others: {}", modified.join(", "))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use muster_contract::config::{ConfigDeployOutput, ConfigStatusOutput, DeployedChange};
    use muster_operations::NodeResults;
    use muster_operations::deploy::{DeployReport, NodeDeployOutcome, NodeDeployResult};

    use super::{DeployView, NodeConfigState, render_states};
    use crate::report::testing::plain;

    fn output() -> ConfigDeployOutput {
        let change = |(name, change): (&str, &str)| DeployedChange {
            name: name.into(),
            change: change.into(),
        };
        let changes = [("policies/groups", "changed"), ("facts.d/rack.json", "added")].map(change);
        ConfigDeployOutput {
            changes: changes.to_vec(),
            effect: "reload".to_owned(),
            ..ConfigDeployOutput::default()
        }
    }

    #[test]
    fn each_node_of_a_deployment_has_a_line() {
        let outcomes = [
            NodeDeployOutcome::Confirmed,
            NodeDeployOutcome::Planned,
            NodeDeployOutcome::Failed("groups:2:1: invalid\u{1b}[2J".into()),
            NodeDeployOutcome::Unconfirmed("denied by config.policy:2".into()),
            NodeDeployOutcome::NotCompleted,
        ];
        let nodes = (1..).zip(outcomes).map(|(number, outcome)| {
            let result = NodeDeployResult { outcome, output: output() };
            (format!("web{number}").parse().unwrap(), result)
        });
        let report = DeployReport {
            deployment: "d1".to_owned(),
            results: NodeResults {
                nodes: nodes.collect(),
                stop: None,
                took: Duration::from_millis(1234),
            },
        };
        let view = DeployView { report: &report, confirm: Duration::from_mins(1) };
        let text = plain(&(view.render_nodes() + &view.render_totals()));
        insta::assert_snapshot!(text, @r"
        web1: confirmed: policies/groups changed, facts.d/rack.json added
        web2: would change: policies/groups changed, facts.d/rack.json added
        web3: failed: groups:2:1: invalid\x1b[2J
        web4: not confirmed: denied by config.policy:2; the node undoes it within 1 m 00 s
        web5: not completed: the command ended early
        5 nodes in 1.23 s: 1 confirmed, 1 failed, 1 not completed, 1 planned, 1 unconfirmed
        ");
        let document = serde_json::to_string_pretty(&view.document()).unwrap();
        insta::assert_snapshot!("config_deploy_json", document);
    }

    #[test]
    fn each_node_has_a_state() {
        let node = |name: &str, state: &str, reason: &str, modified: &[&str]| NodeConfigState {
            node: name.parse().unwrap(),
            status: ConfigStatusOutput {
                state: state.into(),
                caller: "rip".into(),
                deployed_at: 1_764_345_600_000,
                confirm_by: if state == "pending" { 1_764_345_660_000 } else { 0 },
                reason: reason.into(),
                files: vec!["policies/groups".to_owned()],
                program: if state == "none" { "" } else { "0.2.0" }.into(),
                modified: modified.iter().map(|&name| name.into()).collect(),
                ..ConfigStatusOutput::default()
            },
        };
        let states = [
            node("db1", "confirmed", "", &["policies/groups"]),
            node("db2", "pending", "", &[]),
            node("db3", "reverted", "it was not confirmed within 60 s", &[]),
            node("db4", "none", "", &[]),
        ];
        insta::assert_snapshot!(plain(&render_states(&states, 120)), @"
        NODE  STATE      DEPLOYED              BY   FILES  PROGRAM    NOTE
        db1   confirmed  2025-11-28 16:00:00Z  rip  1      0.2.0      changed by others: policies/groups
        db2   pending    2025-11-28 16:00:00Z  rip  1      0.2.0      undoes it at 2025-11-28 16:01:00Z
        db3   reverted   2025-11-28 16:00:00Z  rip  1      0.2.0      it was not confirmed within 60 s
        db4   none       -                     -    -      installed
        ");
    }
}
