//! Finds what would lose notifications on a stock Puppet, in a compiled catalog.
//!
//! An exec that only runs when it is told of a change, and has no guard of its own, is never run if it is skipped in the one run in
//! which it is told: next time its notifier is in sync, and silent. That happens when something fails that the exec depends on and
//! its notifier does not. Our engine keeps what is owed; a catalog that Puppet also applies is better mended.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;

use serde::Serialize;

use crate::catalog::{Catalog, CatalogError};
use crate::engine::ResourceEngine;
use crate::graph::build::build_graph;
use crate::graph::{DependencyGraph, GraphNode, GraphNodeId, cycle};
use crate::resolved_catalog::ResolvedCatalog;
use crate::resource::Resource;

/// One exec that can miss its notification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CatalogLintFinding {
    /// The exec.
    pub resource: String,
    /// Where it was written: `file:line`.
    pub at: Option<String>,
    /// Who tells it of changes.
    pub notifiers: Vec<String>,
    /// For each way to lose it: from what may fail to the exec. Empty when only a crash or its own failure loses it.
    pub failing_paths: Vec<Vec<String>>,
}

impl fmt::Display for CatalogLintFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self
            .at
            .as_deref()
            .map(|at| format!(" ({at})"))
            .unwrap_or_default();
        write!(
            f,
            "{}{at} runs only when {} changes, and has no creates, unless or onlyif",
            self.resource,
            self.notifiers.join(" or ")
        )?;
        for path in &self.failing_paths {
            let (first, rest) = path
                .split_first()
                .map_or(("", path.as_slice()), |(first, rest)| {
                    (first.as_str(), rest)
                });
            write!(
                f,
                "\n  lost for good if {first} fails in that run:\n    {first}"
            )?;
            for (depth, name) in rest.iter().enumerate() {
                write!(f, "\n    {}└─> {name}", "   ".repeat(depth))?;
            }
        }
        f.write_str("\n  give it a guard that says when its work is done")
    }
}

/// Looks through a catalog. Touches nothing.
pub fn lint_catalog(
    engine: &ResourceEngine,
    catalog: &Catalog,
) -> Result<Vec<CatalogLintFinding>, CatalogError> {
    let world = ResolvedCatalog::new(engine, catalog)?;
    let built = build_graph(engine, &world);
    let mut findings = Vec::new();
    for (id, member) in world.in_order() {
        let Some(resource) = member
            .resource
            .as_ref()
            .filter(|resource| is_fragile(resource))
        else {
            continue;
        };
        let Some(&node) = built.nodes.get(&id) else {
            continue;
        };
        let notifiers = find_notifiers(&built.graph, node);
        if notifiers.is_empty() {
            continue;
        }
        let name = |node: &GraphNodeId| cycle::node_name(&built.graph, &world, *node);
        let at = member.file.as_ref().zip(member.line);
        findings.push(CatalogLintFinding {
            resource: resource.reference(),
            at: at.map(|(file, line)| format!("{file}:{line}")),
            notifiers: notifiers.iter().map(name).collect(),
            failing_paths: find_failing_paths(&built.graph, node, &notifiers)
                .iter()
                .map(|path| {
                    let mut names: Vec<String> = path.iter().map(name).collect();
                    names.dedup();
                    names
                })
                .collect(),
        });
    }
    Ok(findings)
}

/// An exec that only refreshes make run, without anything else that says whether its work is done.
fn is_fragile(resource: &Resource) -> bool {
    let guarded = ["creates", "unless", "onlyif"]
        .iter()
        .any(|guard| resource.get(guard).is_some());
    resource.type_name == "exec" && resource.get_flag("refreshonly") && !guarded
}

/// The resources whose change refreshes the node, through anchors.
fn find_notifiers(graph: &DependencyGraph, node: GraphNodeId) -> Vec<GraphNodeId> {
    let mut found = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut open = vec![node];
    while let Some(at) = open.pop() {
        for before in graph.predecessors(at) {
            let refreshes = graph
                .outgoing_edges(before)
                .any(|(to, times)| to == at && times > 0);
            if !refreshes || !seen.insert(before) {
                continue;
            }
            match graph.get_node(before) {
                Some(GraphNode::Resource(_)) => {
                    found.insert(before);
                }
                _ => open.push(before),
            }
        }
    }
    found.into_iter().collect()
}

/// A way to the node from each resource nearest to it that it depends on, and that no notifier depends on, itself included.
fn find_failing_paths(
    graph: &DependencyGraph,
    node: GraphNodeId,
    notifiers: &[GraphNodeId],
) -> Vec<Vec<GraphNodeId>> {
    let mut safe: BTreeSet<GraphNodeId> = BTreeSet::new();
    let mut open: Vec<GraphNodeId> = notifiers.to_vec();
    while let Some(at) = open.pop() {
        if safe.insert(at) {
            open.extend(graph.predecessors(at));
        }
    }
    let mut paths = Vec::new();
    let mut seen = BTreeSet::from([node]);
    let mut open = VecDeque::from([vec![node]]);
    while let Some(path) = open.pop_front() {
        let Some(&at) = path.last() else { continue };
        for before in graph.predecessors(at) {
            if safe.contains(&before) || !seen.insert(before) {
                continue;
            }
            let mut longer = path.clone();
            longer.push(before);
            if matches!(graph.get_node(before), Some(GraphNode::Resource(_))) {
                paths.push(longer.iter().rev().copied().collect());
            } else {
                open.push_back(longer);
            }
        }
    }
    paths
}
