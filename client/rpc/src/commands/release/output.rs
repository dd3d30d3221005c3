//! Renders releases: lists, differences, plans, and what each node has. Texts of services and nodes are escaped.

use std::collections::BTreeMap;

use muster_base::NodeText;
use muster_client::{NodeRow, RequestReport};
use muster_contract::compiler::{
    CompilerDiffGroup, CompilerDiffOutput, CompilerDiffRow, CompilerDraftOutput, CompilerNodeRow,
    CompilerReleaseRow, CompilerReleasesOutput,
};
use muster_contract::release::{ReleaseRunOutcome, ReleaseStatusOutput};
use muster_display::table::Table;
use muster_display::time::format_time_millis;
use muster_display::{TextPage, node_count_text};
use muster_wire::identity::Identity;
use schemars::JsonSchema;
use serde::Serialize;

use crate::commands::catalog::output::{dash, message_text, shorten};

/// Names of a group that are shown.
const SHOWN_NAMES: usize = 5;

/// The document of `rpc release create`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ReleaseCreated {
    schema: &'static str,
    /// The release.
    #[serde(flatten)]
    release: CompilerReleaseRow,
    /// Number of nodes of the environment that match.
    total: usize,
    /// Number of nodes that failed to compile, and are not in the release.
    failed: usize,
    /// These nodes with their errors; at most 100.
    failed_nodes: Vec<CompilerNodeRow>,
    /// What the release changes.
    changes: CompilerDiffOutput,
}

impl ReleaseCreated {
    pub fn new(
        release: CompilerReleaseRow,
        draft: CompilerDraftOutput,
        changes: CompilerDiffOutput,
    ) -> Self {
        Self {
            schema: "muster.release.created.v1",
            release,
            total: draft.total,
            failed: draft.failed_total,
            failed_nodes: draft.failed,
            changes,
        }
    }
}

pub fn render_created(created: &ReleaseCreated, width: usize) -> String {
    let mut page = TextPage::default();
    let ReleaseCreated { release, total, failed, changes, .. } = created;
    page.push_line(format_args!(
        "{}: {} of {} compiled, {failed} failed",
        release.name,
        release.nodes,
        node_count_text(*total)
    ));
    page.push_line(format_args!("{}", summarise(changes)));
    if !created.failed_nodes.is_empty() {
        page.push_gap();
        page.push_heading("Failed to compile, and not in the release");
        let mut table = Table::new(["NODE", "PROBLEM"]);
        for row in &created.failed_nodes {
            let problem = row.failure.as_ref().map(message_text).unwrap_or_default();
            table.row([row.node.clone(), problem]).failed_if(true);
        }
        page.push_text(table.max_lines(Some(3)).render(width));
    }
    page.into_text()
}

/// The numbers of a difference in one line.
fn summarise(changes: &CompilerDiffOutput) -> String {
    let groups = changes.groups.len() + changes.more;
    let nodes: usize = changes.groups.iter().map(|group| group.nodes).sum();
    let mut parts = vec![match groups {
        0 => "no node changes".to_owned(),
        1 => format!("{} in 1 group of identical change", node_count_text(nodes)),
        _ if changes.more > 0 => format!("{groups} groups of identical change"),
        _ => format!("{} in {groups} groups of identical change", node_count_text(nodes)),
    }];
    let others = [
        (changes.unchanged, "unchanged"),
        (changes.added, "without a release before"),
        (changes.removed, "no longer in the release"),
    ];
    let others = others.into_iter().filter(|(count, _)| *count > 0);
    parts.extend(others.map(|(count, text)| format!("{} {text}", node_count_text(count))));
    parts.join(", ")
}

pub fn render_releases(found: &CompilerReleasesOutput, width: usize) -> String {
    if found.releases.is_empty() {
        return String::new();
    }
    let mut page = TextPage::default();
    let mut table = Table::new(["NAME", "ENVIRONMENT", "CODE", "NODES", "CREATED", "BY"]);
    for row in &found.releases {
        table.row([
            row.name.clone(),
            row.environment.line().into_owned(),
            shorten(&row.code.line()),
            row.nodes.to_string(),
            format_time_millis(row.created_at),
            row.author.clone(),
        ]);
    }
    page.push_text(table.render(width));
    let more = found.total.saturating_sub(found.releases.len());
    if more > 0 {
        page.push_line(format_args!("and {more} earlier releases"));
    }
    page.into_text()
}

pub fn render_diff(diff: &CompilerDiffOutput) -> String {
    let mut page = TextPage::default();
    for group in &diff.groups {
        push_group(&mut page, group);
        page.push_gap();
    }
    page.push_line(format_args!("{}", summarise(diff)));
    page.into_text()
}

fn push_group(page: &mut TextPage, group: &CompilerDiffGroup) {
    page.push_heading(name_nodes(group.nodes, group.names.iter().map(String::as_str)));
    for change in &group.changes {
        push_change(page, change);
    }
    if group.more > 0 {
        page.push_line(format_args!("  and {} further changes", group.more));
    }
}

/// The number of nodes and the first names.
fn name_nodes<'a>(count: usize, names: impl Iterator<Item = &'a str>) -> String {
    let shown: Vec<&str> = names.take(SHOWN_NAMES).collect();
    let more = count.saturating_sub(shown.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}: {}{more}", node_count_text(count), shown.join(", "))
}

fn push_change(page: &mut TextPage, change: &CompilerDiffRow) {
    let (resource, kind) = (change.resource.line(), change.change.line());
    let Some(parameter) = &change.parameter else {
        return page.push_line(format_args!("  {resource} {kind}"));
    };
    let parameter = parameter.line();
    if let Some(diff) = &change.diff {
        page.push_line(format_args!("  {resource} {parameter}:"));
        for line in diff.block().lines() {
            page.push_line(format_args!("    {line}"));
        }
        return;
    }
    let shown = |value: &Option<NodeText>| value.as_ref().map(|text| text.line().into_owned());
    let text = match (shown(&change.before), shown(&change.after)) {
        (None, None) => "changed (secret)".to_owned(),
        (None, Some(after)) => format!("set to {after}"),
        (Some(before), None) => format!("{before} removed"),
        (Some(before), Some(after)) => format!("{before} -> {after}"),
    };
    page.push_line(format_args!("  {resource} {parameter}: {text}"));
}

/// Nodes that would change the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReleasePlanGroup {
    /// The nodes.
    nodes: Vec<Identity>,
    /// What they would change.
    changes: Vec<PlannedChange>,
}

/// A change that a node would make.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct PlannedChange {
    /// The resource.
    resource: NodeText,
    /// The property, if it is one.
    property: Option<NodeText>,
    /// What would be done.
    message: NodeText,
}

/// What the nodes said about a release.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct FoldedPlans {
    /// Nodes that would change the same, the most first.
    groups: Vec<ReleasePlanGroup>,
    /// Number of nodes that would change nothing.
    unchanged: usize,
    /// Number of nodes that the release has no catalog for.
    absent: usize,
}

/// What the document of `rpc release plan` contains.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ReleasePlanDocument<'a>(#[serde(borrow)] pub &'a FoldedPlans);

/// Folds equal plans.
pub fn fold_plans(report: &RequestReport) -> FoldedPlans {
    let mut folded = FoldedPlans::default();
    let mut groups: BTreeMap<Vec<PlannedChange>, Vec<Identity>> = BTreeMap::new();
    for NodeRow { node, outputs } in report.rows::<ReleaseRunOutcome>() {
        let changes = planned_changes(outputs.clone());
        match outputs.catalog {
            None => folded.absent += 1,
            Some(_) if changes.is_empty() => folded.unchanged += 1,
            Some(_) => groups.entry(changes).or_default().push(node),
        }
    }
    let groups = groups.into_iter();
    folded.groups = groups.map(|(changes, nodes)| ReleasePlanGroup { nodes, changes }).collect();
    folded.groups.sort_by_key(|group| std::cmp::Reverse(group.nodes.len()));
    folded
}

fn planned_changes(outcome: ReleaseRunOutcome) -> Vec<PlannedChange> {
    let planned = outcome.run.events.into_iter().filter(|event| event.status == "noop");
    let changes = planned.map(|event| PlannedChange {
        resource: event.resource.into(),
        property: event.property.map(Into::into),
        message: event.message.into(),
    });
    changes.collect()
}

pub fn render_plan(plan: &FoldedPlans) -> String {
    let mut page = TextPage::default();
    for group in &plan.groups {
        page.push_heading(name_nodes(group.nodes.len(), group.nodes.iter().map(Identity::as_str)));
        for change in &group.changes {
            let (resource, message) = (change.resource.line(), change.message.line());
            let property = change.property.as_ref().map(|property| format!(" {}", property.line()));
            let property = property.unwrap_or_default();
            page.push_line(format_args!("  {resource}{property}: {message}"));
        }
        page.push_gap();
    }
    let mut parts = vec![format!("{} would change nothing", node_count_text(plan.unchanged))];
    if plan.absent > 0 {
        parts.push(format!("{} not in the release", node_count_text(plan.absent)));
    }
    page.push_line(format_args!("{}", parts.join(", ")));
    page.into_text()
}

/// A node with its release.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ReleaseNode {
    node: Identity,
    #[serde(flatten)]
    status: ReleaseStatusOutput,
}

/// What the document of `rpc release status` contains.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ReleaseStatusDocument<'a> {
    pub nodes: &'a [ReleaseNode],
}

/// The nodes in the replies, by name.
pub fn read_status(report: &RequestReport) -> Vec<ReleaseNode> {
    let rows = report.rows().into_iter();
    rows.map(|NodeRow { node, outputs: status }| ReleaseNode { node, status }).collect()
}

pub fn render_status(nodes: &[ReleaseNode], width: usize) -> String {
    let mut table =
        Table::new(["NODE", "RELEASE", "CATALOG", "PROMOTED", "BY", "LAST RUN", "AT", "PROBLEM"]);
    for ReleaseNode { node, status } in nodes {
        let text = |value: &Option<String>| value.clone().unwrap_or_else(dash);
        let time = |at: Option<u64>| at.map_or_else(dash, format_time_millis);
        let problem = status.problem.as_ref().map(|text| text.line().into_owned());
        let cells = [
            node.to_string(),
            text(&status.release),
            status.catalog.as_deref().map_or_else(dash, shorten),
            time(status.promoted_at),
            text(&status.promoted_by),
            last_run_text(status),
            time(status.last_run_at),
            problem.unwrap_or_default(),
        ];
        let has_failed = status.last_status.as_ref().is_some_and(|last| *last == "failed");
        table.row(cells).failed_if(has_failed || status.problem.is_some());
    }
    table.max_lines(Some(3)).render(width)
}

/// How the last run ended, and how much is to be changed.
fn last_run_text(status: &ReleaseStatusOutput) -> String {
    let Some(last) = &status.last_status else { return dash() };
    let changed = status.last_changed.unwrap_or_default();
    match status.last_noop {
        Some(true) if changed > 0 => format!("noop, {changed} to change"),
        Some(true) => "noop, in sync".to_owned(),
        _ => last.line().into_owned(),
    }
}
