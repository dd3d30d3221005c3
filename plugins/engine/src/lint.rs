//! Finds execs in a compiled catalog that can lose notifications on stock Puppet, and orphans: execs that never run because nothing notifies them.
//!
//! An exec with `refreshonly` never runs if it is skipped in the run in which its notifier changes: in the next run the notifier is in sync and sends
//! no refresh. This happens when a dependency of the exec fails that is not a dependency of the notifier. A guard besides `refreshonly` does not help:
//! without a refresh, Puppet does not consider it. So an exec without a guard is always reported, because it also does not show what it is for; one
//! with a guard is reported if there is such a dependency.
//! Our engine records pending refreshes; a catalog that Puppet also applies should be fixed.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;

use serde::Serialize;

use crate::catalog::{Catalog, CatalogError};
use crate::engine::ResourceEngine;
use crate::graph::build::build_graph;
use crate::graph::{DependencyGraph, GraphNode, GraphNodeId, cycle};
use crate::resolved_catalog::ResolvedCatalog;
use crate::resource::Resource;

/// One exec that can miss its notification, or never gets one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CatalogLintFinding {
    /// The exec.
    pub resource: String,
    /// Source location: `file:line`.
    pub at: Option<String>,
    /// Resources that notify it; empty for an orphan.
    pub notifiers: Vec<String>,
    /// Whether it has `creates`, `unless` or `onlyif` besides `refreshonly`.
    pub is_guarded: bool,
    /// For each way to lose the refresh: the path from the resource that may fail to the exec. Empty if only a crash or a failure of the exec itself
    /// loses it.
    pub failing_paths: Vec<Vec<String>>,
}

impl fmt::Display for CatalogLintFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at.as_deref().map(|at| format!(" ({at})")).unwrap_or_default();
        if self.notifiers.is_empty() {
            return write!(
                f,
                "{}{at} never runs: it is refreshonly, and no resource notifies it\n  notify it, or remove `refreshonly`",
                self.resource
            );
        }
        let notifiers = self.notifiers.join(" or ");
        write!(f, "{}{at} runs only when {notifiers} changes", self.resource)?;
        f.write_str(if self.is_guarded {
            "; its guard does not run it later"
        } else {
            ", and has no creates, unless or onlyif"
        })?;
        for path in &self.failing_paths {
            let Some((first, rest)) = path.split_first() else { continue };
            write!(f, "\n  the refresh is lost if {first} fails in that run:\n    {first}")?;
            for (depth, name) in rest.iter().enumerate() {
                write!(f, "\n    {}└─> {name}", "   ".repeat(depth))?;
            }
        }
        f.write_str(if self.is_guarded {
            "\n  remove `refreshonly`: then the guard alone decides, in every run"
        } else {
            "\n  use `creates`, `unless` or `onlyif` instead of `refreshonly`"
        })
    }
}

/// Changes nothing.
pub fn lint_catalog(
    engine: &ResourceEngine,
    catalog: &Catalog,
) -> Result<Vec<CatalogLintFinding>, CatalogError> {
    let resolved = ResolvedCatalog::new(engine, catalog)?;
    let built = build_graph(engine, &resolved);
    let mut findings = Vec::new();
    for (id, member) in resolved.in_order() {
        let Some(resource) = member.resource.as_ref().filter(|resource| is_refresh_only(resource))
        else {
            continue;
        };
        let Some(&node) = built.nodes.get(&id) else { continue };
        let notifiers: Vec<GraphNodeId> = built.graph.refresh_sources(node).into_iter().collect();
        let failing_paths = find_failing_paths(&built.graph, node, &notifiers);
        let is_guarded = is_guarded(resource);
        if !notifiers.is_empty() && is_guarded && failing_paths.is_empty() {
            continue;
        }
        let name = |node: &GraphNodeId| cycle::node_name(&built.graph, &resolved, *node);
        let at = member.file.as_ref().zip(member.line);
        findings.push(CatalogLintFinding {
            resource: resource.reference(),
            at: at.map(|(file, line)| format!("{file}:{line}")),
            notifiers: notifiers.iter().map(name).collect(),
            is_guarded,
            failing_paths: failing_paths
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

/// An exec that runs only when it is notified.
fn is_refresh_only(resource: &Resource) -> bool {
    resource.type_name == "exec" && resource.get_flag("refreshonly")
}

/// Whether the exec has a guard besides `refreshonly`.
fn is_guarded(resource: &Resource) -> bool {
    ["creates", "unless", "onlyif"].iter().any(|guard| resource.get(guard).is_some())
}

/// For each nearest dependency of the node that is neither a notifier nor a dependency of one: a path from it to the node.
fn find_failing_paths(
    graph: &DependencyGraph,
    node: GraphNodeId,
    notifiers: &[GraphNodeId],
) -> Vec<Vec<GraphNodeId>> {
    // If a dependency of a notifier fails, the notifier is skipped too and sends no notification that could be lost.
    let mut shared_ancestors: BTreeSet<GraphNodeId> = BTreeSet::new();
    let mut pending: Vec<GraphNodeId> = notifiers.to_vec();
    while let Some(current) = pending.pop() {
        if shared_ancestors.insert(current) {
            pending.extend(graph.predecessors(current));
        }
    }
    let mut paths = Vec::new();
    let mut seen = BTreeSet::from([node]);
    let mut pending = VecDeque::from([vec![node]]);
    while let Some(path) = pending.pop_front() {
        let Some(&current) = path.last() else { continue };
        for predecessor in graph.predecessors(current) {
            if shared_ancestors.contains(&predecessor) || !seen.insert(predecessor) {
                continue;
            }
            let mut extended = path.clone();
            extended.push(predecessor);
            if matches!(graph.get_node(predecessor), Some(GraphNode::Resource(_))) {
                paths.push(extended.iter().rev().copied().collect());
            } else {
                pending.push_back(extended);
            }
        }
    }
    paths
}
